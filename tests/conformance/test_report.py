"""Reports: what scripts and people may rely on."""

import json
import math
from dataclasses import replace
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

import dmverify
from dmverify.conformance.report import Report
from dmverify.conformance.report import report as report_module
from dmverify.conformance.report.console import show
from dmverify.conformance.report.repeat import by_check, by_replay, by_verify
from dmverify.conformance.report.report import Subject
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.errors import UnknownNameError
from dmverify.lab.mutants.numeric import doubled

CASES = ["gaussian/spread-1@0", "lengths/q129-k17@0"]


@pytest.fixture(scope="module")
def good():
    return dmverify.verify("simulation", cases=CASES)


@pytest.fixture(scope="module")
def bad():
    return dmverify.verify(doubled, cases=CASES)


def made(*findings):
    return Report((Subject("my:kernel", "article", "bounds", findings),), "smoke", 0)


def test_a_good_report(good):
    assert good.ok
    assert good.exit_code == 0
    assert 0 < good.margin["dk"] <= 1
    assert good.worst("dk").worst.output == "dk"
    with pytest.raises(UnknownNameError, match="dead-rows"):
        good.worst("dkk")


def test_a_bad_report(bad):
    assert not bad.ok
    assert bad.exit_code == 1
    assert bad.margin["o"] > 100
    worst = bad.worst("o")
    assert worst.verdict is Verdict.FAILS
    assert worst.worst.got == pytest.approx(2 * worst.worst.expected, rel=0.02)


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([Verdict.CONFORMS, Verdict.UNSUPPORTED], 0),
        ([Verdict.CONFORMS, Verdict.FAILS, Verdict.ERROR], 1),
        ([Verdict.CONFORMS, Verdict.ERROR], 3),
        ([Verdict.CONFORMS, Verdict.TIMEOUT], 4),
        ([Verdict.ERROR, Verdict.TIMEOUT], 3),
        ([Verdict.CONFORMS, Verdict.INDETERMINATE], 0),
        ([Verdict.INDETERMINATE, Verdict.UNSUPPORTED], 6),
        ([Verdict.UNSUPPORTED], 5),
        ([], 5),
    ],
)
def test_exit_codes(verdicts, code):
    report = made(*(Finding("o", f"c@{i}", verdict) for i, verdict in enumerate(verdicts)))
    assert report.exit_code == code
    assert report.ok is (code == 0)


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_is_told_apart_everywhere(verdict):
    report = made(Finding("o", "c@0", verdict, reason="why"))
    assert report.to_json()["checks"][0]["verdict"] == verdict.value
    assert verdict.value in text_of(report)
    case = ElementTree.fromstring(report.to_junit()).find("testsuite/testcase")
    assert [part.get("type") for part in case] == (
        [] if verdict is Verdict.CONFORMS else [verdict.value]
    )
    assert len({made(Finding("o", "c@0", v)).exit_code for v in Verdict}) == len(Verdict)


def test_what_fails_as_expected_hides_no_other_failure():
    known = Finding("o", "a@0", Verdict.FAILS, math.inf, expected="a known fault")
    report = made(known)
    assert report.exit_code == 0
    assert "o does not conform" in text_of(report)
    assert "expected: a known fault" in text_of(report)
    suite = ElementTree.fromstring(report.to_junit())[0]
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")
    both = made(known, Finding("o", "b@0", Verdict.ERROR, reason="broke"))
    assert both.exit_code == 3
    assert both.checks[0].verdict is Verdict.ERROR
    assert both.checks[0].worst.case == "b@0"


def test_json(good, bad):
    for report in (good, bad):
        text = json.dumps(report.to_json(), allow_nan=False)
        value = json.loads(text)
        assert value.keys() >= {"ok", "kernel", "contract", "level", "seed", "checks"}
        assert value["ok"] is report.ok
        for check in value["checks"]:
            assert check.keys() >= {"id", "verdict", "margin", "cases", "worst", "repro"}
    by_id = {check["id"]: check for check in bad.to_json()["checks"]}
    assert by_id["dk"]["verdict"] == "fails"
    assert by_id["dk"]["worst"]["element"]["got_hex"].startswith("0x")
    assert (by_id["dk"]["failed"], by_id["dk"]["follows"]) == (2, [])
    assert by_id["sum-dv"]["follows"] == ["dv"]
    pattern = by_id["dk"]["worst"]["pattern"]
    assert pattern["words"] == "8,314 of 8,320 elements of dk, all over it: 2 times what is due"
    assert pattern["traits"][0]["kind"] == "factor"
    assert pattern["where"][1].items() >= {"axis": "key", "first": 0, "count": 130}.items()
    assert bad.to_json()["causes"][0]["id"] == "factor"
    assert good.to_json()["causes"] == []
    assert by_id["lse"]["verdict"] == "conforms"


def test_infinite_margins_stay_comparable_in_json():
    report = made(Finding("o", "c@0", Verdict.FAILS, math.inf))
    check = json.loads(json.dumps(report.to_json(), allow_nan=False))["checks"][0]
    assert check["margin"] > 1e300
    report = made(Finding("o", "c@0", Verdict.UNSUPPORTED, reason="why"))
    assert report.to_json()["checks"][0]["margin"] is None


def test_junit(bad):
    root = ElementTree.fromstring(bad.to_junit())
    suites = {suite.get("name"): suite for suite in root}
    assert suites["doubled.dk"].get("failures") == "2"
    assert suites["doubled.lse"].get("failures") == "0"
    failure = suites["doubled.dk"].find("testcase/failure")
    assert "dmverify.verify(kernel, 'article', cases=['gaussian" in failure.text
    assert "elements of dk, all over it: 2 times what is due" in failure.text
    odd = made(Finding("o", "c@0", Verdict.ERROR, reason="\x00<&\ud800"))
    error = ElementTree.fromstring(odd.to_junit()).find("testsuite/testcase/error")
    assert error.get("message") == " <& "


def text_of(report):
    stream = StringIO()
    show(report, Console(file=stream, width=120, highlight=False))
    return stream.getvalue()


def test_the_console_shows_every_failure_with_how_to_repeat_it(good, bad):
    text = text_of(bad)
    for check in bad.checks:
        if check.verdict is Verdict.FAILS and not check.follows:
            assert f"{check.id} does not conform in case {check.worst.case}" in text
            assert f"repeat: {check.repro}" in text
    assert "also fails, as it follows from dv: sum-dv" in text
    assert "elements of dk, all over it" in text
    assert "what: 2 times what is due" in text
    assert "cases: fails on 2 of 2, of gaussian, lengths" in text
    assert "  1. O and the gradients have a factor" in text
    assert "(0x" in text
    assert "doubled: does not conform" in text
    assert "repeat:" not in text_of(good)
    assert "simulation: conforms" in text_of(good)


def test_square_brackets_are_no_markup():
    reason = "o[0, 1] [bold]x[/bold] [/]"
    assert reason in text_of(made(Finding("o", "c@0", Verdict.FAILS, 2.0, reason=reason)))


def test_the_repro_line_names_kernel_contract_and_case():
    finding = Finding("o", "lengths/n1@0", Verdict.FAILS, 2.0)
    assert made(finding).checks[0].repro == (
        "dmverify verify my:kernel --contract article --case lengths/n1@0"
    )
    odd = replace(made(finding).subjects[0], kernel="a b")
    assert "'a b'" in odd.repro(finding)


@pytest.mark.parametrize(
    ("repeat", "due"),
    [
        (
            by_verify("k", "c", timeout=0.1, expect=Path("a b")),
            "verify k --contract c --timeout 0.1 --expect 'a b' --case lengths/n1@0",
        ),
        (by_check(Path("r")), "check r --case lengths/n1@0"),
        (by_replay("k", "c"), "replay lengths/n1@0 --kernel k --contract c"),
    ],
)
def test_the_repro_line_keeps_what_changes_how_a_kernel_is_asked(repeat, due):
    finding = Finding("o", "lengths/n1@0", Verdict.FAILS, 2.0)
    subject = replace(made(finding).subjects[0], repeat=repeat)
    assert subject.repro(finding) == f"dmverify {due}"


def declining(*declined):
    cases = ["gaussian/a@0", "gaussian/b@0", "lengths/n1@0", "offset/v@0"]
    return made(
        *(
            Finding("supported", case, Verdict.UNSUPPORTED, reason="too hard")
            if case in declined
            else Finding("o", case, Verdict.CONFORMS, 0.5, judged=3)
            for case in cases
        )
    )


def test_what_serves_a_part_does_not_look_like_what_serves_all():
    whole, part = declining(), declining("gaussian/a@0", "offset/v@0")
    assert "my:kernel: conforms on 4 of 4 cases, 12 values" in text_of(whole)
    assert (
        "my:kernel: conforms on 2 of 4 cases (declined: offset; declined in part: gaussian)"
    ) in text_of(part)
    assert part.to_json()["served"] == {"asked": 4, "served": 2, "required": 0.0}
    (subject,) = part.to_json()["subjects"]
    assert subject["declined"][0] == {
        "family": "gaussian",
        "asked": 2,
        "declined": 1,
        "reason": "too hard",
    }
    for report, skipped in ((whole, "0"), (part, "1")):
        suite = ElementTree.fromstring(report.to_junit())[-1]
        assert (suite.get("name"), suite.get("skipped")) == ("my:kernel.served", skipped)
        assert suite.find("properties/property[@name='asked']").get("value") == "4"
    message = suite.find("testcase/skipped").get("message")
    assert message == "served 2 of 4 cases (declined: offset; declined in part: gaussian)"


def test_many_declined_families_are_counted():
    findings = [Finding("supported", f"f{i}/a@0", Verdict.UNSUPPORTED) for i in range(9)]
    report = made(Finding("o", "easy/a@0", Verdict.CONFORMS), *findings)
    assert str(report.served) == "1 of 10 cases (declined: f0, f1, f2, f3 and 5 more families)"


@pytest.mark.parametrize(("required", "code"), [(0.0, 0), (0.5, 0), (0.51, 1), (1.0, 1)])
def test_too_few_served_cases_do_not_conform(required, code):
    report = replace(declining("gaussian/a@0", "offset/v@0"), min_served=required)
    assert report.exit_code == code
    assert ("too few cases served" in text_of(report)) is bool(code)
    suite = ElementTree.fromstring(report.to_junit())[-1]
    assert suite.get("failures") == str(code)
    assert report.to_json()["served"]["required"] == required


def test_the_worst_finding_is_of_the_summarys_verdict():
    report = made(
        Finding("o", "unsupported@0", Verdict.UNSUPPORTED, np.nan),
        Finding("o", "fine@0", Verdict.CONFORMS, 0.9),
        Finding("o", "worse@0", Verdict.FAILS, 3.0),
        Finding("o", "bad@0", Verdict.FAILS, 2.0),
    )
    (summary,) = report.checks
    assert summary.worst.case == "worse@0"
    assert (summary.cases, summary.unsupported, summary.margin) == (3, 1, 3.0)


def test_write(good, tmp_path):
    path = good.write(tmp_path / "new" / "reports")
    assert json.loads((path / "report.json").read_text())["ok"] is True
    ElementTree.parse(path / "junit.xml")
    assert sorted(file.name for file in path.iterdir()) == ["junit.xml", "report.json"]


def test_a_failed_write_leaves_nothing_half_written(good, tmp_path, monkeypatch):
    good.write(tmp_path)
    before = (tmp_path / "report.json").read_bytes()

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(report_module.Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        good.write(tmp_path)
    assert (tmp_path / "report.json").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2
