"""How commands end: the verdict first, paths before it, Ctrl-C and a reader who leaves."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dmverify.cli import cli
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.report.report import Report

CASES = ("lengths/q17-k129@0", "lengths/q129-k17@0")
NAMED = [word for case in CASES for word in ("--case", case)]
WRONG = "dmverify.lab.mutants.numeric:doubled"
PATHS = os.pathsep.join(path for path in sys.path if path)
DMVERIFY = [sys.executable, "-m", "dmverify"]
# Sends Ctrl-C to the judge within the second question, and does not answer it.
STOPPED = """
import os, signal
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.lab.mutants.numeric import Mapped

class Stopped(Mapped):
    def __init__(self):
        super().__init__("stopped", lambda x: FACTOR * x)
    def forward(self, case):
        if case.problem.keys == 17:
            os.kill(os.getppid(), signal.SIGINT)
            signal.pause()
        return super().forward(case)
"""


class Counts(Simulation):
    """Counts the questions."""

    asked = 0

    def supports(self, case):
        Counts.asked += 1
        return super().supports(case)


def call(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], prog_name="dmverify")


def heed_ctrl_c():
    """A shell starts background jobs with SIGINT ignored, and their children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(*words, path="", **more):
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(path), PATHS])}
    return subprocess.run(
        [*DMVERIFY, *map(str, words)],
        env=env,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=heed_ctrl_c,
        **more,
    )


@pytest.mark.parametrize("option", ["--out", "--junit"])
@pytest.mark.parametrize("place", ["/proc/nope", "file/below", "file/far/below"])
def test_a_path_that_cannot_be_written_is_refused_before_the_first_case(
    tmp_path, monkeypatch, option, place
):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr(Counts, "asked", 0)
    words = ("verify", f"{__name__}:Counts", "--in-process", "--case", CASES[0], "--check", "o")
    result = call(*words, option, tmp_path / place)
    assert result.exit_code == 2
    assert place in result.stderr
    assert "fix:" in result.stderr
    assert Counts.asked == 0
    assert (tmp_path / "file").read_text() == "mine"


def test_a_directory_in_the_place_of_a_file_is_refused(tmp_path):
    assert call("verify", "simulation", *NAMED, "--junit", tmp_path).exit_code == 2


def test_files_that_are_there_and_devices_can_be_named(tmp_path):
    (tmp_path / "old.xml").write_text("old")
    words = ("verify", "simulation", "--case", CASES[0], "--check", "o", "--junit")
    for path in (tmp_path / "old.xml", Path(os.devnull)):
        assert call(*words, path).exit_code == 0
    assert "testsuite" in (tmp_path / "old.xml").read_text()
    assert not Path(os.devnull).is_file()


def test_the_verdict_is_printed_before_files_are_written(tmp_path, monkeypatch):
    def full(self, directory):
        raise OSError(28, "No space left on device", str(directory))

    monkeypatch.setattr(Report, "write", full)
    result = call("verify", WRONG, "--case", CASES[0], "--check", "o", "--out", tmp_path / "r")
    assert "o does not conform" in result.stdout
    assert (result.exit_code, "No space left" in result.stderr) == (3, True)


@pytest.mark.parametrize(("factor", "verdict"), [("1", "conforms"), ("2", "fails")])
def test_ctrl_c_keeps_what_was_judged(tmp_path, factor, verdict):
    (tmp_path / "stops.py").write_text(STOPPED.replace("FACTOR", factor))
    out = tmp_path / "r"
    words = ("verify", "stops:Stopped", *NAMED, "--out", out, "--junit", tmp_path / "j.xml")
    found = run(*words, path=tmp_path, stdout=subprocess.PIPE)
    assert (found.returncode, found.stderr) == (130, "")
    assert "so far, as Ctrl-C ended the run" in found.stdout
    assert ("o does not conform" in found.stdout) == (factor == "2")
    report = json.loads((out / "report.json").read_text())
    assert (report["interrupted"], report["ok"], report["verdict"]) == (True, False, verdict)
    assert {check["worst"]["case"] for check in report["checks"]} == {CASES[0]}
    assert (tmp_path / "j.xml").exists()


def test_a_run_that_ends_is_not_interrupted():
    result = call("verify", "simulation", "--case", CASES[0], "--check", "o", "--json")
    assert json.loads(result.stdout)["interrupted"] is False


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("verify", WRONG, "--case", CASES[0]), 1),
        (("verify", "simulation", "--case", CASES[0], "--json"), 0),
        (("replay", CASES[0], "--kernel", WRONG), 1),
        (("list", "checks"), 141),
        (("list", "checks", "--json"), 141),
    ],
)
def test_a_reader_who_leaves_is_no_fault_and_loses_no_verdict(words, code):
    read, write = os.pipe()
    os.close(read)
    found = run(*words, stdout=write)
    os.close(write)
    assert (found.returncode, found.stderr) == (code, "")


@pytest.mark.parametrize("size", ["keys=2000000000", "batch=9999999,heads=4096,queries=99999"])
def test_a_case_that_no_machine_holds_is_refused_before_the_first_question(monkeypatch, size):
    monkeypatch.setattr(Counts, "asked", 0)
    words = ("verify", f"{__name__}:Counts", "--case", CASES[0], "--case")
    result = call(*words, f"constant-v/third,{size}@0")
    assert result.exit_code == 2
    assert result.stderr.startswith("[DMV-INPUT]")
    assert "GB" in result.stderr
    assert Counts.asked == 0
