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
from dmverify.ci.html import charts, render
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
    assert "&#34;delta&#34;: &#34;matched&#34;" in page  # the contract's own text


def test_a_ledger_is_drawn_for_the_worst_row_sum(page):
    part = page.partition('id="ledger"')[2].partition("</section>")[0]
    assert "cast" in part
    assert 'class="t0"' in part


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
    assert "a page is made of a report" in done.output


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


def test_a_browser_s_complaint_would_be_heard(tmp_path):
    html = "<html><body><script>nothing_such()</script></body></html>"
    assert "nothing_such" in shown(html, tmp_path)[0]
