"""What a worker runs for an id, without a GPU: the launches are made up."""

import json

import pytest

from dmverify.lab.mutants import MUTANTS
from dmverify.lab.mutants.cuda import MUTATIONS
from dmverify.lab.mutants.cuda.answer_files import STARTED, Reply, read_reply
from dmverify.lab.mutants.cuda.drive import delayed_id, tasks_of

worker = pytest.importorskip("dmverify.lab.mutants.cuda.worker", exc_type=ImportError)

RACY, PLAIN = MUTANTS["record-barrier-missing"], MUTANTS["value-scale-dropped"]


class Launches:
    """Says which way each id went, and whether its file of a start was there by then."""

    def __init__(self, folder):
        self.folder, self.seen = folder, {}

    def race(self, key, mutation, *, wrong=True):
        started = [path.name for path in self.folder.glob(f"*{STARTED}")]
        assert (key, mutation) == (RACY.keys[0], MUTATIONS[RACY.id])
        id_ = RACY.id if wrong else delayed_id(RACY)
        self.seen[id_] = "race" if f"{id_}{STARTED}" in started else "too early"
        return Reply("answered", runs=100)

    def perform(self, job):
        self.seen[job.id] = "perform"
        if job.id.startswith("correct-graph"):
            raise RuntimeError("no such graph")
        return Reply("answered")


@pytest.fixture
def launches(tmp_path, monkeypatch):
    made = Launches(tmp_path)
    monkeypatch.setattr(worker, "race", made.race)
    monkeypatch.setattr(worker, "perform", made.perform)
    monkeypatch.setattr(worker.torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(worker, "fill_memory", lambda: None)
    return made


def test_each_id_goes_its_way_and_a_delayed_kernel_races_like_its_fault(launches, tmp_path):
    tasks = tasks_of([RACY, PLAIN])
    worker.run_jobs([worker.Job(task.id, task.cases) for task in tasks], tmp_path)
    due = {task.id: "race" if RACY.id in task.id else "perform" for task in tasks}
    assert launches.seen == due
    assert due[delayed_id(RACY)] == "race"
    replies = {task.id: read_reply(tmp_path, task.id) for task in tasks}
    assert replies[delayed_id(RACY)].runs == 100
    assert replies["correct-graph"].verdict == "error"
    assert json.loads((tmp_path / "producer.json").read_text())["kernel"] == "bundled"


def test_what_a_delayed_kernel_compiles_has_no_mistake():
    options = worker.options_of(
        worker.generate(RACY.cases[0], contract="bundled"), worker.Choices()
    )
    racy = MUTATIONS[RACY.id]
    assert racy.delayed(options).edits == racy.late
    assert racy.options(options).edits[: len(racy.late)] == racy.late
    assert len(racy.options(options).edits) > len(racy.late)
