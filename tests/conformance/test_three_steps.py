"""Generate, run, check: what a run may need, what it leaves, and what an interruption costs."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dmverify.cli import cli
from dmverify.conformance import journal
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.load import load
from dmverify.conformance.questions import list_asked
from dmverify.conformance.store import ANSWERS, FOOTER, MANIFEST, answer_path
from dmverify.conformance.three_steps import run_cases
from dmverify.errors import HarnessError, InputError, RecordingError, UnknownNameError
from dmverify.spec.case import Outputs
from dmverify.spec.recording import Provenance

CASES = ("lengths/n1@0", "lengths/n2@0", "lengths/n15@0")
PATH = [path for path in (str(Path.cwd()), os.environ.get("PYTHONPATH")) if path]
ASKED = list_asked(contract="article", cases=CASES)


def call(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], prog_name="dmverify")


class Wrong(Simulation):
    @property
    def info(self):
        return Provenance("another")


class Counts(Simulation):
    """Counts its calls; breaks at one of them."""

    def __init__(self, breaks=None, error=KeyboardInterrupt):
        self.calls, self._breaks, self._error = 0, breaks, error

    def backward(self, case):
        self.calls += 1
        if self.calls == self._breaks:
            raise self._error
        return super().backward(case)


def test_the_generated_list_holds_questions_only(tmp_path):
    """A kernel that looks for expected answers beside the cases finds none."""
    assert call("gen", tmp_path / "cases.jsonl", "--case", "gaussian/spread-2@0").exit_code == 0
    (path,) = [p for p in tmp_path.rglob("*") if p.is_file()]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows == [{"case": "gaussian/spread-2@0", "contract": "bundled"}]


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    out = tmp_path / "r"
    with pytest.raises(KeyboardInterrupt):
        run_cases(Counts(breaks=3), ASKED, out=out)
    with pytest.raises(RecordingError, match="truncated"):
        load(out)
    assert call("check", out).exit_code == 3
    again = Counts()
    whole = run_cases(again, ASKED, out=out)
    assert again.calls == 1
    assert [key[0] for key in whole.answers] == list(CASES)
    assert contents(out).keys() == {FOOTER, MANIFEST, *(f"{name}" for name in answers(out))}
    fresh = run_cases(Simulation(), ASKED)
    for key, due in fresh.answers.items():
        for name, array in due.items():
            got = getattr(load(out).answers[key], name)
            assert np.array_equal(got.view(np.uint32), array.view(np.uint32))


def test_what_is_half_written_is_asked_again(tmp_path):
    out = tmp_path / "r"
    with pytest.raises(KeyboardInterrupt):
        run_cases(Counts(breaks=3), ASKED, out=out)
    half = answer_path(out, ASKED[1])
    half.write_bytes(half.read_bytes()[:-4])
    again = Counts()
    assert len(run_cases(again, ASKED, out=out).answers) == 3
    assert again.calls == 2


def test_another_kernel_does_not_go_on_and_another_list_does(tmp_path):
    out = tmp_path / "r"
    with pytest.raises(KeyboardInterrupt):
        run_cases(Counts(breaks=3), ASKED, out=out)
    with pytest.raises(InputError, match="the kernel, device and driver that it began with"):
        run_cases(Wrong(), ASKED, out=out)
    again, corrected = Counts(), (ASKED[2], ASKED[0])
    run_cases(again, corrected, out=out)
    assert again.calls == 1
    run_cases(Counts(), corrected, out=tmp_path / "fresh")
    assert contents(out) == contents(tmp_path / "fresh")
    with pytest.raises(InputError, match="never overwritten"):
        run_cases(Counts(), ASKED, out=out)


def test_every_id_is_checked_before_the_first_question(tmp_path):
    bad = (*ASKED[:1], ("lengths/nothing@0", "article"))
    kernel, out = Counts(), tmp_path / "r"
    with pytest.raises(UnknownNameError, match="variant 'nothing'"):
        run_cases(kernel, bad, out=out)
    assert kernel.calls == 0
    assert not out.exists()
    run_cases(kernel, ASKED, out=out)


def test_one_run_at_a_time(tmp_path):
    class Second(Counts):
        def backward(self, case):
            with pytest.raises(InputError, match="one run at a time"):
                run_cases(Counts(), ASKED, out=tmp_path / "r")
            return super().backward(case)

    kernel = Second()
    run_cases(kernel, ASKED, out=tmp_path / "r")
    assert kernel.calls == 3


def test_a_recording_does_not_agree_with_itself(tmp_path):
    """It holds one answer: what compares two calls has nothing to compare."""
    run_cases(Simulation(), ASKED, out=tmp_path / "r")
    again = [check.id for check in CHECKS.values() if check.needs in ("kernel", "calls")]
    words = [word for name in again for word in ("--check", name)]
    result = call("check", tmp_path / "r", *words, "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 5
    assert {check["id"] for check in report["checks"]} == set(again) >= {"repeat", "poison"}
    assert {c["worst"]["reason"] for c in report["checks"]} == {"it cannot be asked again"}


def test_what_has_no_answer_keeps_its_verdict(tmp_path):
    out = tmp_path / "r"
    run_cases(Counts(breaks=2, error=RuntimeError("device lost")), ASKED, out=out)
    result = call("check", out, "--check", "o", "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["verdict"]) == (3, "error")
    (row,) = [check for check in report["checks"] if check["id"] == "run"]
    assert "device lost" in row["worst"]["reason"]
    assert row["worst"]["case"] == CASES[1]


def test_a_nan_of_another_payload_is_a_failure_and_no_fault_of_the_judge(tmp_path):
    """Warnings are errors in these tests, and numpy warns where it converts such a number."""
    signalling = np.uint32(0x7F800001).view(np.float32)

    class Signals(Simulation):
        def backward(self, case):
            found = super().backward(case)
            return Outputs(**{name: np.full_like(x, signalling) for name, x in found.items()})

    run_cases(Signals(), ASKED, out=tmp_path / "r")
    result = call("check", tmp_path / "r", "--json")
    assert result.exit_code == 1
    assert {c["verdict"] for c in json.loads(result.stdout)["checks"]} <= {"fails", *OPEN}


OPEN = ("conforms", "unsupported", "indeterminate")

BLOCK = """
import socket, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("z3", "cvc5", "bitwuzla", "flint", "gfloat", "msgspec"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
def refuse(*args, **named):
    raise OSError("no network")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from dmverify.cli import main
main()
"""


def test_a_full_disk_of_the_journal_ends_the_run_which_goes_on(tmp_path, monkeypatch):
    class Full(sqlite3.Connection):
        def execute(self, words, *more):
            if words == journal.PUT:
                raise sqlite3.OperationalError("database or disk is full")
            return super().execute(words, *more)

    plain = sqlite3.connect
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *x, **more: plain(*x, **more, factory=Full))
        with pytest.raises(HarnessError, match="disk is full"):
            run_cases(Counts(), ASKED, out=tmp_path / "r")
    assert len(run_cases(Counts(), ASKED, out=tmp_path / "r").answers) == 3


def test_a_run_needs_no_solver_no_flint_no_schema_no_network(tmp_path):
    cases = tmp_path / "cases.jsonl"
    call("gen", cases, "--contract", "article", *(w for c in CASES for w in ("--case", c)))
    words = [sys.executable, "-c", BLOCK, "run", "simulation", tmp_path / "r", "--cases", cases]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(load(tmp_path / "r").answers) == 3
    words = [sys.executable, "-c", BLOCK.replace("from dmverify.cli", "import flint\nfrom x"), "x"]
    assert subprocess.run(words, capture_output=True, check=False).returncode != 0


WAITS = """
import os, time
from pathlib import Path
from dmverify.conformance.kernels.simulation import Simulation
class Waits(Simulation):
    def backward(self, case):
        with Path(os.environ["CALLS"]).open("a") as file:
            file.write(f"{case.problem.queries}\\n")
        if case.problem.queries == 2 and os.environ.get("WAIT"):
            time.sleep(1e6)
        return super().backward(case)
"""


@pytest.mark.parametrize("more", [[], ["--timeout", "86400"]])
def test_ctrl_c_and_the_same_command_again(tmp_path, monkeypatch, more):
    (tmp_path / "waits.py").write_text(WAITS)
    out, calls = tmp_path / "r", tmp_path / "calls"
    named = [word for case in CASES for word in ("--case", case)]
    words = [sys.executable, "-m", "dmverify", "run", "waits:Waits", str(out), *named, *more]
    env = os.environ | {"CALLS": str(calls), "PYTHONPATH": os.pathsep.join([str(tmp_path), *PATH])}
    with subprocess.Popen(
        words, stderr=subprocess.PIPE, env=env | {"WAIT": "1"}, preexec_fn=heed_ctrl_c
    ) as process:
        while len(lines(calls)) < 2:  # the second question, so the first answer is in the journal
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read().decode()
    assert (process.returncode, said.count("\n")) == (130, 1)
    assert said.startswith("[DMV-INTERRUPTED]")
    assert len(answers(out)) == 1
    stopped = call("check", out)
    assert (stopped.exit_code, "truncated" in stopped.stderr) == (3, True)
    subprocess.run(words, env=env, check=True, capture_output=True)
    assert lines(calls) == ["1", "2", "2", "15"]
    whole = tmp_path / "whole"
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("CALLS", str(calls))
    assert call("run", "waits:Waits", whole, *named).exit_code == 0
    assert contents(out) == contents(whole)
    assert contents(out).keys() == {FOOTER, MANIFEST, *answers(out)}


def heed_ctrl_c():
    """A shell starts background jobs with SIGINT ignored, and their children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def answers(folder):
    return [path.name for path in (folder / ANSWERS).iterdir()]


STOPS = """
import sys, time
from pathlib import Path
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.questions import list_asked
from dmverify.conformance.three_steps import run_cases
class Stops(Simulation):
    calls = 0
    def backward(self, case):
        self.calls += 1
        if self.calls == int(sys.argv[1]):
            print("here", flush=True)
            time.sleep(1e6)
        return super().backward(case)
kernel = Stops()
run_cases(kernel, list_asked(contract="article", cases=sys.argv[3:]), out=Path(sys.argv[2]))
print(kernel.calls)
"""


def test_a_run_that_is_killed_is_truncated_and_goes_on(tmp_path):
    out, script = tmp_path / "r", tmp_path / "stops.py"
    script.write_text(STOPS)
    words = [sys.executable, str(script), "2", str(out), *CASES]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"here\n"
        os.kill(process.pid, signal.SIGKILL)
    assert not (out / FOOTER).exists()
    with pytest.raises(RecordingError, match="truncated"):
        load(out)
    assert len(answers(out)) == 1
    words[2] = "0"
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "2\n"
    assert len(load(out).answers) == 3
