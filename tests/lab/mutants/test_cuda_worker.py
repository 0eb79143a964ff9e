"""What a worker runs for an id, without a GPU: the launches are made up."""

import json
import sys

import pytest

from dmverify.lab.mutants import MUTANTS
from dmverify.lab.mutants.cuda import MUTATIONS, drive
from dmverify.lab.mutants.cuda.answer_files import Reply, read_reply
from dmverify.lab.mutants.cuda.drive import LAUNCH, Task, delayed_id, tasks_of

worker = pytest.importorskip("dmverify.lab.mutants.cuda.worker", exc_type=ImportError)

RACY, PLAIN = MUTANTS["record-barrier-missing"], MUTANTS["value-scale-dropped"]


class Launches:
    """Says which way each id went, and whether the worker was told to launch it by then."""

    def __init__(self):
        self.heard, self.said, self.seen = [], [], {}

    def lines(self, tasks):
        """What a worker hears, as it takes it."""
        for task in tasks:
            for line in (json.dumps({"id": task.id, "cases": task.cases}), LAUNCH):
                self.heard.append(line)
                yield line

    def race(self, key, mutation, *, wrong=True):
        assert (key, mutation) == (RACY.keys[0], MUTATIONS[RACY.id])
        id_ = RACY.id if wrong else delayed_id(RACY)
        self.seen[id_] = "race" if self.heard[-1] == LAUNCH else "too early"
        return Reply("answered", runs=100)

    def perform(self, job):
        self.seen[job.id] = "perform"
        if job.id.startswith("correct-graph"):
            raise RuntimeError("no such graph")
        if job.id == "correct-stream":
            raise RuntimeError("CUDA error: launch failed")
        return Reply("answered")


@pytest.fixture
def launches(monkeypatch):
    made = Launches()
    monkeypatch.setattr(worker, "race", made.race)
    monkeypatch.setattr(worker, "perform", made.perform)
    monkeypatch.setattr(worker.torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(worker, "fill_memory", lambda: None)
    return made


def test_each_id_goes_its_way_and_a_delayed_kernel_races_like_its_fault(launches, tmp_path):
    tasks = [task for task in tasks_of([RACY, PLAIN]) if task.id != "correct-stream"]
    worker.serve(launches.lines(tasks), tmp_path, say=launches.said.append)
    due = {task.id: "race" if RACY.id in task.id else "perform" for task in tasks}
    assert launches.seen == due
    assert due[delayed_id(RACY)] == "race"
    replies = {task.id: read_reply(tmp_path, task.id) for task in tasks}
    assert replies[delayed_id(RACY)].runs == 100
    assert replies["correct-graph"].verdict == "error"
    assert launches.said[:2] == ["ready", "answered"]
    assert len(launches.said) == 2 * len(tasks)
    assert json.loads((tmp_path / "producer.json").read_text())["kernel"] == "bundled"


def test_a_cuda_error_ends_the_process_that_it_has_spoilt(launches, tmp_path):
    tasks = sorted(tasks_of([PLAIN]), key=lambda task: task.id != "correct-stream")
    worker.serve(launches.lines(tasks), tmp_path, say=launches.said.append)
    assert launches.said == ["ready", "crash"]
    assert (
        read_reply(tmp_path, "correct-stream").reason == "RuntimeError: CUDA error: launch failed"
    )


STUBBED = """
import sys
from dmverify.lab.mutants.cuda import worker

def noisy():
    print("noise of a kernel")
    return worker.Reply("answered")

worker.fill_memory = worker.torch.cuda.synchronize = lambda: None
worker._ready = lambda job: noisy
worker.main(sys.argv[1:])
"""


def test_a_real_process_answers_line_by_line_whatever_its_kernels_print(tmp_path, monkeypatch):
    monkeypatch.setattr(drive, "hopper_present", lambda: True)
    monkeypatch.setattr(drive, "WORKER", (sys.executable, "-c", STUBBED))
    tasks = [Task(name, ()) for name in "ab"]
    monkeypatch.setattr(drive, "SHARED_PROCESSES", 1)
    replies = drive.run_tasks(tasks, tmp_path)
    assert {name: reply.verdict for name, reply in replies.items()} == dict.fromkeys(
        "ab", "answered"
    )


def test_what_a_delayed_kernel_compiles_has_no_mistake():
    options = worker.options_of(
        worker.generate(RACY.cases[0], contract="bundled"), worker.Choices()
    )
    racy = MUTATIONS[RACY.id]
    assert racy.delayed(options).edits == racy.late
    assert racy.options(options).edits[: len(racy.late)] == racy.late
    assert len(racy.options(options).edits) > len(racy.late)
