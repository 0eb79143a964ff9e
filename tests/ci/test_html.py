"""The HTML report: whole, self-contained, safe, and without complaints of a browser."""

import os
import re
import shutil
import subprocess

import msgspec
import pytest
from click.testing import CliRunner

import dmverify
from dmverify.ci.documents import read_document
from dmverify.ci.html import charts, maps, render
from dmverify.ci.html.smallest import smallest
from dmverify.cli import cli

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
CASES = ["lengths/n17@0", "lengths/n129@0", "special/q-nan@0"]
WIDE = "<script>console.log('wide', document.documentElement.scrollWidth > innerWidth)</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("report")
    kernel = "dmverify.lab.mutants.numeric:doubled"
    dmverify.verify(kernel, cases=CASES, in_process=True).write(made)
    return made


@pytest.fixture(scope="module")
def page(folder):
    return render(read_document(folder))


def test_it_says_what_failed_where_why_and_how_to_see_it_again(page):
    assert "<title>dmverify.lab.mutants.numeric:doubled: fails</title>" in page
    assert re.search(r"worst element</dt><dd><code>dq\[\d", page)
    assert re.search(r"\(<code>0x[0-9a-f]{4,8}</code>\), due", page)
    assert "2 times what is due" in page
    assert "dmverify verify dmverify.lab.mutants.numeric:doubled --contract article" in page
    assert "Likely causes" in page
    assert page.count("<figure>") >= 4  # a picture of each output that fails
    assert "lengths: 2" in page
    assert "<dt>smallest input</dt>" in page
    assert "17 queries, 17 keys, 64 channels" in page
    assert "&#34;delta&#34;: &#34;matched&#34;" in page  # the contract's own text


def test_a_ledger_is_drawn_for_the_worst_row_sum(page):
    part = page.partition('id="ledger"')[2].partition("</section>")[0]
    assert "cast" in part
    assert 'class="t0"' in part


def section(page, name):
    """The rows of a section's tables, as words."""
    part = page.partition(f'id="{name}"')[2].partition("</section>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", part, re.DOTALL)
    return [[re.sub("<[^>]*>", " ", cell).split() for cell in row.split("</t")] for row in rows]


def test_the_map_says_which_conditions_the_cases_meet(folder):
    (subject,) = read_document(folder).subjects
    found = maps.coverage_map(subject)
    factors = {name: {one.name: one.number for one in counts} for name, counts in found.factors}
    assert factors["values"]["gaussian"] == 2  # two of family lengths
    assert factors["values"]["non-finite"] == 1
    assert factors["values"]["strided"] == 0
    assert sum(factors["mask"].values()) == 3
    lengths = {name: [one.number for one in counts] for name, counts in found.lengths}
    assert sum(map(sum, lengths.values())) == 3
    assert lengths["1"][0] >= 1  # 17 queries, 17 keys
    declined = msgspec.structs.replace(
        subject,
        cases=tuple(msgspec.structs.replace(c, verdict="unsupported") for c in subject.cases),
    )
    assert not any(one.number for _, row in maps.coverage_map(declined).factors for one in row)


def test_the_kill_matrix_is_of_the_checks_that_judged(folder, page):
    document = read_document(folder)
    every = maps.kills(document)
    assert {"o", "dq", "dk", "dv"} <= set(every.checks)
    assert "bits" not in every.checks  # the contract states no order
    assert every.killed <= every.known
    alone = [row for row in document.checks if row.id == "lse"]
    few = maps.kills(msgspec.structs.replace(document, checks=tuple(alone)))
    assert few.checks == ("lse",)
    assert 0 < few.killed < every.killed
    assert max(one.number for _, _, cells in few.rows for one in cells) <= max(
        total for _, total, _ in few.rows
    )
    assert f"{every.killed} of {every.known} are rejected" in page
    assert maps.kills(msgspec.structs.replace(document, checks=())).checks == ()


def test_the_smallest_failing_case_is_named_with_its_line(folder):
    document = read_document(folder)
    row = next(one for one in document.checks if one.id == "dq")
    found = smallest(document, row)
    assert found.case == "lengths/n17@0"
    assert found.repeat.endswith("--case lengths/n17@0")
    passes = next(one for one in document.checks if one.verdict == "conforms")
    assert smallest(document, passes) is None
    several = msgspec.structs.replace(document, contracts={"a": "", "b": ""})
    assert smallest(several, row).repeat == ""


def test_accuracy_is_shown_by_family(page):
    rows = section(page, "accuracy")
    assert any(row[0][-1:] == ["lengths"] for row in rows)


def test_it_needs_nothing_else(page):
    assert re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)""", page) == []
    assert "url(" not in page
    assert "<script" not in page


def test_what_a_kernel_says_is_text(folder):
    document = read_document(folder)
    bad = "<script>alert(1)</script>"
    worst = msgspec.structs.replace(document.checks[0].worst, case=bad, reason=bad)
    row = msgspec.structs.replace(document.checks[0], worst=worst, repro=bad)
    page = render(msgspec.structs.replace(document, kernel=bad, notes=(bad,), checks=(row,)))
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)") >= 4


def test_colours_and_places_of_margins():
    assert [charts.level(x) for x in (1.01, 10.1, 1e4, 1e300)] == [6, 7, 8, 8]
    assert [charts.level(x) for x in (None, 0.0, 0.19, 0.2, 0.99, 1.0, 1.01)] == [
        0,
        1,
        1,
        2,
        5,
        5,
        6,
    ]
    assert charts.place(0.0) == 0 == charts.place(1e-9)
    assert charts.place(1e-6) < charts.place(1.0) < charts.place(3.0) < charts.place(1e300) == 1


def test_the_command_writes_it_beside_the_report(folder, tmp_path):
    assert CliRunner().invoke(cli, ["html", str(folder)]).exit_code == 0
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    timings = tmp_path / "bench.json"
    timings.write_text('{"gpu": "H200", "torch": "2.11", "rows": []}')
    done = CliRunner().invoke(cli, ["html", str(timings)])
    assert done.exit_code == 2
    assert "a page shows a report" in done.output


def test_a_page_is_not_written_over_its_report(folder):
    report = folder / "report.json"
    before = report.read_bytes()
    for name in (folder, report):
        done = CliRunner().invoke(cli, ["html", str(name), "--to", str(report)])
        assert done.exit_code == 2
        assert "not over it" in done.output
    assert report.read_bytes() == before


def shown(html, tmp_path, *words):
    """What a browser complains of, or logs, when it shows a page."""
    if not BROWSER:
        if os.environ.get("CI"):
            pytest.fail("no chromium on this machine, and CI is set: nothing is skipped there")
        pytest.skip("no chromium on this machine")
    file = tmp_path / "page.html"
    file.write_text(html)
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", *words, file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Bound and observed" in done.stdout or "<body>" in done.stdout
    return re.findall(r"CONSOLE.*?\] \"(.*?)\"", done.stderr)


@pytest.mark.parametrize(
    "words",
    [
        ("--window-size=1200,900",),
        ("--window-size=1200,900", "--blink-settings=preferredColorScheme=0"),
        ("--window-size=500,900",),
    ],
    ids=["light", "dark", "narrow"],
)
def test_a_browser_has_no_complaint_and_nothing_is_wider_than_the_window(words, page, tmp_path):
    assert shown(page.replace("</body>", f"{WIDE}</body>"), tmp_path, *words) == ["wide false"]


KEYS = """<script>
document.querySelectorAll('details').forEach(one => { one.open = true; });
const all = [...document.querySelectorAll('a[href], summary, .scroll')];
const lost = all.filter(one => { one.focus(); const style = getComputedStyle(one);
  return document.activeElement !== one || style.outlineStyle === 'none'; });
const wide = [...document.querySelectorAll('body *')].filter(one =>
  one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX === 'auto');
const shut = wide.filter(one => one.tabIndex);
console.log('reached', all.length, 'lost', lost.length, 'shut', shut.length);
</script>"""


def test_the_keyboard_reaches_every_link_and_everything_that_scrolls(page, tmp_path):
    words = ("--window-size=500,900",)
    (said,) = shown(page.replace("</body>", f"{KEYS}</body>"), tmp_path, *words)
    assert re.fullmatch(r"reached \d\d+ lost 0 shut 0", said)
    shut = page.replace(' tabindex="0"', "")
    (said,) = shown(shut.replace("</body>", f"{KEYS}</body>"), tmp_path, *words)
    assert not said.endswith("lost 0 shut 0")


def test_a_browser_s_complaint_would_be_heard(tmp_path):
    html = "<html><body><script>nothing_such()</script></body></html>"
    assert "nothing_such" in shown(html, tmp_path)[0]
