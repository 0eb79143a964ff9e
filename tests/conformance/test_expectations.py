"""Expectations: what was foreseen fails nothing, a pass that was not foreseen does."""

import json

import pytest
from click.testing import CliRunner

import dmverify
from dmverify.cli import cli
from dmverify.conformance.expectations import apply_expectations, read_expectations
from dmverify.conformance.report import Report
from dmverify.conformance.report.report import Subject
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.errors import InputError
from dmverify.spec.recording import Provenance

NAN = Finding("nan", "special/q-nan@0", Verdict.FAILS, float("inf"), reason="swallowed")
FINE = Finding("o", "special/q-nan@0", Verdict.CONFORMS, 0.5)
LATE = Finding("run", "lengths/n1@0", Verdict.TIMEOUT, reason="late")

ENTRY = """
[[expect]]
case = "special/*"
check = "nan"
verdict = "fails"
reason = "reported"
"""


def report(*findings, **producer):
    made = Provenance(kernel="mine", **producer)
    return Report((Subject("mine", "article", "bounds", findings, made),), "smoke", 0)


def applied(path, text, *findings, **producer):
    path.write_text(text)
    return apply_expectations(report(*findings, **producer), read_expectations(path))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "expect.toml"


def test_what_fails_as_expected_fails_nothing(path):
    assert report(NAN, FINE).exit_code == 1
    found = applied(path, ENTRY, NAN, FINE)
    assert found.exit_code == 0
    assert found.warnings == ()
    assert found.findings[0].expected == "reported"
    assert found.to_json()["checks"][0]["expected"] == 1


def test_another_verdict_than_the_expected_one_still_fails(path):
    entry = ENTRY.replace("fails", "timeout")
    assert applied(path, entry, NAN, FINE).exit_code == 1


@pytest.mark.parametrize("verdict", ["timeout", "error", "unsupported", "indeterminate"])
def test_every_verdict_can_be_expected(path, verdict):
    finding = Finding("nan", "special/x@0", Verdict(verdict), reason="so")
    found = applied(path, ENTRY.replace("fails", verdict), finding, FINE)
    assert (found.exit_code, found.findings[0].expected) == (0, "reported")


def test_an_unexpected_pass_fails(path):
    found = applied(path, ENTRY.replace('"nan"', '"o"'), FINE)
    assert found.exit_code == 1
    assert "unexpected pass: 'fails' was expected (expect.toml, entry 1" in (
        found.findings[0].reason
    )


def test_a_stale_entry_warns(path):
    found = applied(path, ENTRY.replace("special/*", "gone/*"), FINE)
    assert found.ok
    assert found.warnings == (
        "stale expectation (expect.toml, entry 1): no finding is of case 'gone/*' and check 'nan'",
    )
    assert found.to_json()["warnings"] == list(found.warnings)


def test_conditions(path):
    entry = ENTRY + 'when = {device = "*H200*", contract = "article"}\n'
    here = applied(path, entry, NAN, FINE, device="NVIDIA H200")
    elsewhere = applied(path, entry, NAN, FINE, device="cpu")
    assert (here.exit_code, elsewhere.exit_code) == (0, 1)
    assert elsewhere.warnings == ()  # it is not stale, it is about another machine


def test_the_last_entry_decides(path):
    exception = ENTRY.replace("special/*", "special/q-nan@0").replace("fails", "conforms")
    assert applied(path, ENTRY + exception, NAN, FINE).exit_code == 1


def test_json_lines(tmp_path):
    path = tmp_path / "expect.jsonl"
    row = {"case": "lengths/*", "verdict": "timeout", "reason": "slow"}
    found = applied(path, json.dumps(row) + "\n\n", LATE, FINE)
    assert found.exit_code == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[expect]", "expect.toml"),
        ("[other]\n", "other"),
        ('[[expect]]\nverdict = "does not"\nreason = "x"', "verdict is one of"),
        ('[[expect]]\nverdict = "error"', "are texts"),
        ('[[expect]]\nverdict = "error"\nreason = " "', "gives its reason"),
        ('[[expect]]\nverdict = "error"\nreason = "x"\ncheks = "o"', "'cheks'"),
        ('[[expect]]\nverdict = "error"\nreason = "x"\nwhen = {gpu = "x"}', "conditions are"),
        ('[[expect]]\nverdict = "error"\nreason = "x"\nwhen = {device = 3}', "are texts"),
        ("expect = [3]", "an entry is a table"),
    ],
)
def test_bad_files_are_typed_errors(path, text, says):
    path.write_text(text)
    with pytest.raises(InputError, match="fix: ") as caught:
        read_expectations(path)
    assert says in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_missing_file_is_a_typed_error(path):
    with pytest.raises(InputError, match="TOML"):
        read_expectations(path)


def test_the_command_line(path):
    wrong = "dmverify.lab.mutants.numeric:ScaleMissing"
    path.write_text(
        '[[expect]]\ncheck = "dq"\nverdict = "fails"\nreason = "no scale"\n'
        '[[expect]]\ncase = "gone/*"\nverdict = "error"\nreason = "stale"\n'
    )
    words = ("verify", wrong, "--case", "lengths/n65@0", "--expect", str(path))
    checks = ("--check", "dq", "--check", "dk", "--check", "power-v")
    result = CliRunner().invoke(cli, [*words, *checks], prog_name="dmverify")
    assert result.exit_code == 0, result.stdout
    assert "fails (expected)" in result.stdout
    assert "warning: stale expectation" in result.stdout
    assert CliRunner().invoke(cli, [*words[:4], *checks]).exit_code == 1


def test_a_random_seed_is_drawn_and_named():
    first, second = (
        dmverify.verify("simulation", seed="random", cases=["lengths/n1@0"]) for _ in range(2)
    )
    assert first.seed != second.seed
    with pytest.raises(InputError, match="or 'random'"):
        dmverify.verify("simulation", seed="rnd", cases=["lengths/n1@0"])
