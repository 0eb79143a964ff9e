"""Driving and judging faulty CUDA kernels, with processes and answers that a test makes up."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from dmverify.cli.main import cli
from dmverify.errors import KernelError
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


class Processes:
    """Workers that answer until they meet the fault that ends them."""

    def __init__(self, ends):
        self.ends, self.started = ends, []

    def __call__(self, tasks, folder, limit):
        self.started.append([task.id for task in tasks])
        for task in tasks:
            if task.id in self.ends:
                return self.ends[task.id]
            write_reply(folder, task.id, Reply("answered"))
        return False, ""


def test_a_process_that_dies_loses_only_its_fault(tmp_path):
    tasks = [Task(name, ()) for name in "abcdefghi"]
    ends = {"a": (False, "CUDA error"), "b": (True, "killed"), "e": (False, "NameError")}
    spawn = Processes(ends)
    replies = run_tasks(tasks, tmp_path, spawn=spawn)
    told = {name: reply.verdict for name, reply in replies.items()}
    assert told == dict.fromkeys("cdfghi", "answered") | {
        "a": "crash", "b": "timeout", "e": "error",
    }  # fmt: skip
    assert all(any(name in ids for ids in spawn.started) for name in told)


def test_a_fault_that_may_hang_has_a_process_of_its_own_and_answers_are_kept(tmp_path):
    spawn = Processes({})
    tasks = [Task("a", ()), Task("b", (), alone=True), Task("c", ())]
    run_tasks(tasks, tmp_path, spawn=spawn)
    assert ["b"] in spawn.started
    again = Processes({})
    run_tasks(tasks, tmp_path, spawn=again)
    assert again.started == []


def process(monkeypatch, code):
    """A real process instead of a worker; it gets the folder as its argument."""
    monkeypatch.setattr(drive, "hopper_present", lambda: True)
    monkeypatch.setattr(drive, "WORKER", (sys.executable, "-c", code))


def test_a_real_process_that_outlives_its_limit_is_killed(tmp_path, monkeypatch):
    code = (
        "import sys, time, pathlib; pathlib.Path(sys.argv[1], 'a.started').touch(); time.sleep(1e6)"
    )
    process(monkeypatch, code)
    monkeypatch.setattr(drive, "LONE_LIMIT", 0.1)
    replies = run_tasks([Task("a", (), alone=True)], tmp_path)
    assert replies["a"].verdict == "timeout"


def test_what_is_named_by_a_hang_is_waited_for_less_long(tmp_path, monkeypatch):
    limits = {}

    def spawn(tasks, folder, limit):
        limits[tasks[0].id] = limit
        write_reply(folder, tasks[0].id, Reply("answered"))
        return False, ""

    run_tasks([task for task in tasks_of([HANGS, RACY]) if task.alone], tmp_path, spawn=spawn)
    assert limits == {HANGS.id: drive.HANG_LIMIT, RACY.id: drive.LONE_LIMIT}
    assert drive.HANG_LIMIT < drive.LONE_LIMIT


def test_a_process_that_never_comes_to_its_fault_has_shown_nothing(tmp_path, monkeypatch):
    process(monkeypatch, "import time; time.sleep(1e6)")
    monkeypatch.setattr(drive, "START_LIMIT", 0.1)
    replies = run_tasks([Task("a", (), alone=True)], tmp_path)
    assert replies["a"].verdict == "error"


def test_the_last_words_of_a_process_are_kept(tmp_path, monkeypatch):
    process(monkeypatch, "raise SystemExit('CUDA error: an illegal memory access')")
    replies = run_tasks([Task("a", ())], tmp_path)
    assert replies["a"].verdict == "crash"
    assert "illegal" in replies["a"].reason


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
    assert {row["id"] for row in shape["faults"]} - killed == recorded.UNSEEN
    assert all(MUTANTS[name].check == "fences" for name in recorded.UNSEEN)
    assert shape["false_positives"]["alarms"] == 0
