"""Driving and judging faulty CUDA kernels, with processes and answers that a test makes up."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from dmverify.cli.main import cli
from dmverify.errors import KernelError, KernelTimeoutError
from dmverify.lab.mutants import MUTANTS, kill_matrix
from dmverify.lab.mutants.answers import known_of
from dmverify.lab.mutants.cuda import back_end, drive, recorded
from dmverify.lab.mutants.cuda.answer_files import Reply, read_reply, write_reply
from dmverify.lab.mutants.cuda.back_end import CudaMutants, row_of_reply
from dmverify.lab.mutants.cuda.drive import Task, run_tasks, tasks_of
from dmverify.lab.mutants.emulator import EmulatorMutants

ZEROED, RACY, FENCE, HANGS, DELAYED = (
    MUTANTS[name]
    for name in (
        "value-scale-dropped", "full-wait-missing-key", "proxy-fence-missing",
        "wrong-phase-producer", "full-wait-missing-query",
    )
)  # fmt: skip


def right(keys):
    """What the correct kernel answers."""
    bits = [known_of(*key).bits for key in keys]
    return Reply("answered", tuple(((x.o, x.lse), x) for x in bits))


def wrong(keys):
    """The same with O twice as large."""
    doubled = [replace(outputs, o=2 * outputs.o) for _, outputs in right(keys).answers]
    return Reply("answered", tuple(((x.o, x.lse), x) for x in doubled))


def matrix_of(mutant, folder):
    return kill_matrix([mutant], CudaMutants(folder))


@pytest.fixture
def answered(tmp_path):
    """A folder with an answer for one fault and its controls."""
    for task in tasks_of([ZEROED]):
        make = wrong if task.id == ZEROED.id else right
        write_reply(tmp_path, task.id, make(task.cases))
    return tmp_path


def test_a_reply_comes_back_bit_for_bit(tmp_path):
    sent = wrong(ZEROED.keys)
    write_reply(tmp_path, "x", replace(sent, caught=3, runs=100))
    back = read_reply(tmp_path, "x")
    assert (back.verdict, back.caught, back.runs) == ("answered", 3, 100)
    for name, array in sent.answers[0][1].items():
        assert np.array_equal(array.view("u4"), getattr(back.answers[0][1], name).view("u4"))
    assert read_reply(tmp_path, "y") is None


def test_kept_answers_are_judged_without_a_gpu(answered):
    found = matrix_of(ZEROED, answered)
    assert found.ok
    shape = found.to_json()
    assert shape["faults"][0]["by"] == "o"
    assert shape["false_positives"]["with_bits"] == "0 of 3 cases"


def test_a_fault_that_changes_nothing_survives(answered):
    write_reply(answered, ZEROED.id, right(ZEROED.keys))
    found = matrix_of(ZEROED, answered)
    assert [row.mutant.id for row in found.survivors] == [ZEROED.id]
    assert found.rows[0].error == 0


def test_a_correct_kernel_with_a_wrong_bit_is_an_alarm(answered):
    (control,) = (t for t in tasks_of([ZEROED]) if t.id.startswith("correct@"))
    reply = right(control.cases)
    outputs = reply.answers[0][1]
    outputs.dv.view("u4").flat[0] ^= 1 << 16
    write_reply(answered, control.id, reply)
    outputs.dv.view("u4").flat[0] ^= 1 << 16
    found = matrix_of(ZEROED, answered)
    assert not found.ok
    assert "bits" in next(iter(found.alarms.values()))


@pytest.mark.parametrize(("caught", "ok"), [(0, True), (1, False)])
def test_a_delay_that_moves_a_bit_of_the_correct_kernel_is_an_alarm(tmp_path, caught, ok):
    for task in tasks_of([DELAYED]):
        write_reply(tmp_path, task.id, replace(right(task.cases), runs=100))
    control = drive.delayed_id(DELAYED)
    write_reply(tmp_path, control, replace(right(DELAYED.keys), caught=caught, runs=100))
    found = matrix_of(DELAYED, tmp_path)
    alarms = [checks for (case, _), checks in found.alarms.items() if control in case]
    assert alarms == [() if ok else ("bits",)]


def test_a_control_without_an_answer_is_an_alarm(answered):
    write_reply(answered, "correct-graph", Reply("error", reason="no such thing"))
    assert not matrix_of(ZEROED, answered).ok


@pytest.mark.parametrize(
    ("verdict", "killed"), [("timeout", True), ("crash", True), ("error", False)]
)
def test_a_hang_and_a_cuda_error_are_kills_and_a_broken_harness_is_not(verdict, killed):
    row = row_of_reply(HANGS, Reply(verdict, reason="why"))
    assert row.killed is killed
    assert row.killed_without_bits is killed
    assert row.to_json()["reason"] == "why"


def test_a_fault_that_may_hang_is_killed_if_it_does_whatever_names_it():
    row = row_of_reply(RACY, Reply("timeout"))
    assert row.killed
    assert row.to_json()["by"] == "run"


def test_a_crash_does_not_kill_what_another_check_names():
    assert not row_of_reply(ZEROED, Reply("crash")).killed


@pytest.mark.parametrize(("caught", "killed"), [(100, True), (95, True), (94, False), (0, False)])
def test_what_is_a_matter_of_timing_needs_95_of_100_runs(caught, killed):
    outputs = right(RACY.keys).answers[0][1]
    bad = replace(outputs, dk=2 * outputs.dk)
    reply = Reply("answered", (((bad.o, bad.lse), bad),), caught=caught, runs=100)
    row = row_of_reply(RACY, reply)
    assert row.killed is killed
    assert row.killed_without_bits is killed


def test_a_missing_fence_is_seen_though_no_run_shows_it(monkeypatch):
    monkeypatch.setattr(back_end, "lacks_order", lambda fault: True)
    reply = replace(right(FENCE.keys), caught=0, runs=100)
    assert row_of_reply(FENCE, reply).with_bits == ("fences",)
    assert row_of_reply(FENCE, reply).killed
    monkeypatch.setattr(back_end, "lacks_order", lambda fault: False)
    assert not row_of_reply(FENCE, reply).killed


class Process:
    """A worker that answers until it meets a fault that ends it; it notes what it was asked."""

    def __init__(self, folder, ends, limits):
        self.folder, self.ends, self.limits, self.asked = folder, ends, limits, []

    def ask(self, line, *, what, timeout):
        if line != drive.LAUNCH:
            self.asked.append(json.loads(line)["id"])
            return "ready"
        name = self.asked[-1]
        self.limits[name] = timeout
        if name in self.ends:
            raise self.ends[name](name, rule="", fix="")
        write_reply(self.folder, name, Reply("answered"))
        return "answered"

    def end(self):
        self.asked.append("")


class Processes:
    """Starts them."""

    def __init__(self, ends=()):
        self.ends, self.limits, self.started = dict(ends), {}, []

    def __call__(self, folder):
        self.started.append(Process(folder, self.ends, self.limits))
        return self.started[-1]


def cuda_error(name, **words):
    return KernelError(f"{name}: CUDA error", **words)


def test_a_process_that_dies_loses_only_its_fault(tmp_path):
    tasks = [Task(name, ()) for name in "abcdefghi"]
    ends = {"a": cuda_error, "b": KernelTimeoutError, "e": KernelError}
    start = Processes(ends)
    replies = run_tasks(tasks, tmp_path, start=start)
    told = {name: reply.verdict for name, reply in replies.items()}
    assert told == dict.fromkeys("cdfghi", "answered") | {
        "a": "crash", "b": "timeout", "e": "error",
    }  # fmt: skip
    assert all(process.asked[-1] == "" for process in start.started)  # ended
    last = {process.asked[-2] for process in start.started}
    assert set(ends) <= last  # nothing was asked of a process after the fault that ended it


def test_a_fault_that_may_hang_has_a_process_of_its_own_and_answers_are_kept(tmp_path):
    start = Processes()
    tasks = [Task("a", ()), Task("b", (), alone=True), Task("c", ())]
    run_tasks(tasks, tmp_path, start=start)
    assert ["b", ""] in [process.asked for process in start.started]
    again = Processes()
    run_tasks(tasks, tmp_path, start=again)
    assert again.started == []


def process(monkeypatch, code):
    """A real process instead of a worker."""
    monkeypatch.setattr(drive, "hopper_present", lambda: True)
    monkeypatch.setattr(drive, "WORKER", (sys.executable, "-c", code))


def test_a_real_process_that_outlives_its_limit_is_killed(tmp_path, monkeypatch):
    process(monkeypatch, "input(); print('ready', flush=True); input(); input()")
    monkeypatch.setattr(drive, "LONE_LIMIT", 0.1)
    replies = run_tasks([Task("a", (), alone=True)], tmp_path)
    assert replies["a"].verdict == "timeout"


def test_what_is_named_by_a_hang_is_waited_for_less_long(tmp_path):
    start = Processes()
    run_tasks([task for task in tasks_of([HANGS, RACY]) if task.alone], tmp_path, start=start)
    assert start.limits == {HANGS.id: drive.HANG_LIMIT, RACY.id: drive.LONE_LIMIT}
    assert drive.HANG_LIMIT < drive.LONE_LIMIT


def test_a_process_that_never_comes_to_its_fault_has_shown_nothing(tmp_path, monkeypatch):
    process(monkeypatch, "input(); input()")
    monkeypatch.setattr(drive, "READY_LIMIT", 0.1)
    replies = run_tasks([Task("a", (), alone=True)], tmp_path)
    assert replies["a"].verdict == "error"


def test_the_last_words_of_a_process_are_kept(tmp_path, monkeypatch):
    ends = "raise SystemExit('CUDA error: an illegal memory access')"
    process(monkeypatch, f"input(); print('ready', flush=True); input(); {ends}")
    replies = run_tasks([Task("a", ())], tmp_path / "launched")
    assert replies["a"].verdict == "crash"
    assert "illegal" in replies["a"].reason
    process(monkeypatch, ends)  # before the fault ran: nothing was learnt about it
    assert run_tasks([Task("a", ())], tmp_path / "started")["a"].verdict == "error"


def test_without_a_gpu_nothing_is_run_and_nothing_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(drive, "hopper_present", lambda: False)
    with pytest.raises(KernelError, match="Hopper"):
        matrix_of(HANGS, tmp_path)
    result = CliRunner().invoke(cli, ["faults", HANGS.id, "--kernel", "bundled"])
    assert result.exit_code not in (0, 1)


def test_the_verb_judges_kept_answers(answered):
    arguments = ["faults", ZEROED.id, "--kernel", "bundled", "--answers", str(answered), "--json"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0
    shape = json.loads(result.stdout)
    assert shape["faults"][0]["verdict"] == "answered"
    write_reply(answered, ZEROED.id, right(ZEROED.keys))
    result = CliRunner().invoke(cli, arguments[:-1])
    assert result.exit_code == 1
    assert f"not rejected by o: {ZEROED.id}" in result.stdout


def test_markdown_shows_the_recorded_matrix_beside_the_emulators(answered, tmp_path, monkeypatch):
    found = matrix_of(ZEROED, answered).to_json() | {"producer": {"device": "a GPU"}}
    path = tmp_path / "recorded.json"
    path.write_text(json.dumps(found))
    monkeypatch.setattr(recorded, "RECORDED", path)
    monkeypatch.setattr(EmulatorMutants, "made", {"zeros"})
    result = CliRunner().invoke(cli, ["faults", "--alarm-seeds", "1", "--markdown"])
    assert "### faults (emulator)" in result.stdout
    assert "### kills (bundled, recorded on a GPU)" in result.stdout
    assert f"| {ZEROED.id} | o | x |" in result.stdout


@pytest.mark.skipif(not recorded.RECORDED.exists(), reason="no recording of a GPU yet")
def test_the_recording_kills():
    shape = json.loads(recorded.RECORDED.read_text())
    killed = {row["id"] for row in shape["faults"] if row["killed"] and row["by"] == row["names"]}
    assert {row["id"] for row in shape["faults"]} == killed
    assert shape["false_positives"]["alarms"] == 0
