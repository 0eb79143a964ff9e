"""gen, run, check, record and bench on the command line."""

import json

import pytest
from click.testing import CliRunner

from dmverify.cli import cli
from dmverify.lab.recordings import load_digests
from dmverify.lab.recordings import plan as planned
from dmverify.lab.recordings.by_hash import ByHash

CASES = ("lengths/n1@0", "lengths/q17-k129@0")


def call(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], prog_name="dmverify")


def options(name, values):
    return [word for value in values for word in (name, value)]


def test_three_steps_from_the_command_line(tmp_path):
    listed, recording = tmp_path / "cases", tmp_path / "recording"
    made = call("gen", listed, *options("--case", CASES))
    assert made.exit_code == 0
    assert "2 cases" in made.stdout
    ran = call("run", "emulator", recording, "--cases", listed)
    assert ran.exit_code == 0
    assert "2 answers" in ran.stdout
    checked = call("check", recording, "--json", "--check", "bits", "--check", "format")
    assert checked.exit_code == 0
    report = json.loads(checked.stdout)
    assert report["ok"]
    assert {check["id"] for check in report["checks"]} == {"bits", "format"}
    assert call("run", "emulator", recording, "--cases", listed).exit_code == 2


def test_a_wrong_recording_is_rejected_and_a_damaged_one_is_broken(tmp_path):
    wrong = "dmverify.lab.mutants.numeric:doubled"
    asked = ("--case", CASES[0], "--contract", "article")
    assert call("run", wrong, tmp_path / "wrong", *asked).exit_code == 0
    assert call("check", tmp_path / "wrong", "--check", "o").exit_code == 1
    manifest = tmp_path / "wrong" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("article", "upstream"))
    result = call("check", tmp_path / "wrong")
    assert result.exit_code == 3
    assert "DMV-RECORDING" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("gen", "{}/x", "--level", "none"),
        ("gen", "{}/x", "--case", "nothing/here"),
        ("run", "emulator", "{}/x"),
        ("run", "emulater", "{}/x", "--case", CASES[0]),
        ("run", "emulator", "{}/x", "--cases", "{}/missing"),
        ("record", "{}/x", "-j", "0"),
        ("record", "{}/x", "--parts", "smoke,half"),
        ("bench", "--shape", "1,2"),
    ],
)
def test_wrong_usage_exits_with_2(tmp_path, words):
    result = call(*(word.format(tmp_path) for word in words))
    assert result.exit_code == 2
    assert not (tmp_path / "x").exists()


def test_record_needs_a_kernel_that_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(planned, "CORE", planned.CORE[:1])
    result = call("record", tmp_path / "x", "--parts", "core", "-j", 1)
    assert result.exit_code == 5  # no Hopper GPU here: nothing ran
    result = call("record", tmp_path / "y", "--parts", "core", "-j", 2, "--kernel", "emulator")
    assert result.exit_code == 0
    assert len(load_digests(tmp_path / "y" / "hashes").cases) == 12


def test_recorded_outputs_of_the_hardware_are_judged_by_name():
    case = json.loads(call("verify", "recorded-bundled", "--json", "--case", SHIPPED).stdout)
    assert case["ok"]
    assert {check["id"] for check in case["checks"]} >= {"recorded-digests"}
    result = call("verify", "recorded-bundled", "--case", "lengths/n1@99")
    assert result.exit_code == 2
    assert "recorded cases only" in result.stderr


SHIPPED = next(case for case, _ in ByHash().cases if case.startswith("lengths/n1"))
