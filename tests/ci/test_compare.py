"""What became worse is named, what did not is not, and what cannot be compared is refused."""

import json

import msgspec
import pytest
from click.testing import CliRunner

import dmverify
from dmverify.ci.compare import compare
from dmverify.ci.documents import Timings, read_document
from dmverify.cli import cli
from dmverify.errors import InputError

ROW = {"kernel": "bundled", "shape": "1,16,16,8192,128", "pass": "forward", "cold_ms": 0.5}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("old")
    dmverify.verify("simulation", cases=["lengths/n17@0"], in_process=True).write(folder)
    return folder


@pytest.fixture
def changed(report, tmp_path):
    """The report with one change: ``changed(path of keys, value)`` is the file of the other run."""

    def made(*keys, value):
        whole = json.loads((report / "report.json").read_text())
        part = whole
        for key in keys[:-1]:
            part = part[key]
        part[keys[-1]] = value
        file = tmp_path / "new.json"
        file.write_text(json.dumps(whole))
        return file

    return made


def place(report, check):
    checks = json.loads((report / "report.json").read_text())["checks"]
    return next(i for i, row in enumerate(checks) if row["id"] == check)


def worse(old, new, limit=0.1):
    changes, _ = compare(read_document(old), read_document(new), limit=limit)
    return {(one.what, one.of) for one in changes if one.worse}


def test_a_report_is_no_worse_than_itself(report):
    assert worse(report, report, limit=0) == set()


@pytest.mark.parametrize(
    ("keys", "factor", "found"),
    [
        (("margin",), 1.2, {("margin", "simulation/dq")}),
        (("margin",), 1.05, set()),
        (("errors", "median"), 1.2, {("error", "simulation/dq median")}),
        (("errors", "largest"), 1.2, {("error", "simulation/dq largest")}),
        (("errors", "largest"), 0.5, set()),
    ],
)
def test_growth_beyond_the_limit_is_worse(keys, factor, found, report, changed):
    at = place(report, "dq")
    row = json.loads((report / "report.json").read_text())["checks"][at]
    for key in keys:
        row = row[key]
    assert worse(report, changed("checks", at, *keys, value=row * factor)) == found


def test_a_margin_that_is_nothing_may_double(report, changed):
    at = place(report, "lse")
    assert worse(report, changed("checks", at, "margin", value=0.018)) == set()


def test_a_verdict_coverage_and_cases_served_that_got_worse(report, changed):
    at = place(report, "nan")
    new = changed("checks", at, "verdict", value="fails")
    assert worse(report, new) == {("verdict", "simulation/nan")}
    assert worse(new, report) == set()
    assert worse(report, changed("coverage", value={})) == {("coverage", "lengths")}
    assert worse(report, changed("subjects", 0, "served", value=0)) == {("served", "simulation")}


def test_a_run_that_was_asked_nothing_is_worse_than_one_that_was(report, changed):
    nothing = changed("subjects", 0, "asked", value=0)
    assert worse(report, nothing) == {("served", "simulation")}
    assert worse(nothing, report) == worse(nothing, nothing) == set()


def test_a_check_that_is_gone_is_worse(report, changed):
    assert ("verdict", "simulation/o") in worse(report, changed("checks", value=[]))


def test_speed_is_compared_row_by_row():
    old = Timings("H200", "2.11", (ROW | {"busy_ms": 0.4}, ROW | {"pass": "backward"}))
    new = Timings("H200", "2.11", (ROW | {"busy_ms": 0.5},))
    changes, notes = compare(old, new, limit=0.1)
    found = {one.of: one.worse for one in changes}
    assert list(found.values()) == [False, True, True]  # as fast, slower, gone
    assert notes == ()
    _, notes = compare(old, msgspec.structs.replace(new, gpu="H100"), limit=0.1)
    assert "H100" in notes[0]


def test_unlike_runs_are_told_and_a_report_beside_timings_is_refused(report, changed):
    new = read_document(changed("level", value="full"))
    assert compare(read_document(report), new, limit=0.1)[1] == ("level: smoke before, full now",)
    with pytest.raises(InputError, match="or two sets of timings"):
        compare(new, Timings("H200", "2.11", ()), limit=0.1)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "x"}', '{"rows": 1}', "\xff"])
def test_what_is_no_report_is_refused(text, tmp_path):
    file = tmp_path / "report.json"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=r"report\.json: .*; fix: write it with"):
        read_document(file)


def test_the_command_fails_if_something_is_worse(report, changed):
    at = place(report, "dq")
    new = changed("checks", at, "margin", value=30.0)
    words = ["compare", str(report), str(new)]
    done = CliRunner().invoke(cli, [*words, "--fail-if-worse", "10%", "--markdown"])
    assert done.exit_code == 1
    assert "| margin | simulation/dq |" in done.stdout
    assert "1 of " in done.stdout
    assert CliRunner().invoke(cli, [*words, "--fail-if-worse", "100000%"]).exit_code == 0
    assert json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)["worse"] == 1
    assert CliRunner().invoke(cli, [*words, "--fail-if-worse", "ten"]).exit_code == 2
