"""One run from its checkpoint to its record, and as many runs as fit into a time.

A run writes one JSON at every probe and when the time is over; a checkpoint lets the next sitting
go on. Nothing is done twice. On a CPU runs may go side by side, each in a process with one thread:
no figure depends on how many cores there are.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from dmverify import __version__
from dmverify.conformance.pool import Pool
from dmverify.files import write_atomically
from dmverify.studies.resume import RUNS, held
from dmverify.studies.study import Progress
from dmverify.studies.training.corpus import load_corpus
from dmverify.studies.training.job import Job
from dmverify.studies.training.look import look
from dmverify.studies.training.state import Plan, State, Stop, begin, points


def run(job: Job, *, device: str, folder: Path, state_folder: Path, stop: Stop) -> dict[str, Any]:
    """Trains until the job's last step or until ``stop``; returns its record, which is written."""
    plan, state = Plan.of(job, device), begin(job, device)
    _load(state, state_folder)
    for at in points(state, plan, stop):
        if not at.record or at.record[-1]["step"] < at.step:  # a checkpoint may stand on a probe
            at.record.append(look(at, plan.windows))
            _write(at, folder)
    _save(state, state_folder)
    return _write(state, folder)


def _write(state: State, folder: Path) -> dict[str, Any]:
    record = {
        **state.job.describe(),
        "done": state.step >= state.job.steps,
        "reached": state.step,
        "text": load_corpus(state.job.setting.corpus).describe(),
        "machine": machine(state.tokens.device),
        "points": state.record,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{state.job.key}.json", json.dumps(record, allow_nan=False) + "\n")
    return record


def machine(device: torch.device) -> dict[str, str]:
    """What computed."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return {"device": name, "torch": torch.__version__, "dmverify": __version__}


def _save(state: State, folder: Path) -> None:
    if state.step >= state.job.steps:
        (folder / f"{state.job.key}.pt").unlink(missing_ok=True)
        return
    folder.mkdir(parents=True, exist_ok=True)
    kept = {
        "step": state.step,
        "buffer": state.models.buffer.detach(),
        "moments": state.optimiser.moments,
        "moving": state.watch.moving,
        "record": state.record,
    }
    torch.save(kept, folder / f"{state.job.key}.pt")


def _load(state: State, folder: Path) -> None:
    path = folder / f"{state.job.key}.pt"
    if not path.exists():
        return
    kept = torch.load(path, map_location=state.tokens.device, weights_only=True)
    with torch.no_grad():
        state.models.buffer.copy_(kept["buffer"])
        state.optimiser.moments.copy_(kept["moments"])
    state.step, state.record = kept["step"], kept["record"]
    state.watch.moving = dict(kept["moving"])


def finished(job: Job, folder: Path) -> bool:
    """Whether there is a whole record of this very job."""
    record = _record_of(job, folder)
    return record is not None and bool(record["done"])


def _record_of(job: Job, folder: Path) -> dict[str, Any] | None:
    """The record of this very job: a key does not hold all of it."""
    path = folder / f"{job.key}.json"
    if not path.exists():
        return None
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    asked = json.loads(json.dumps(job.describe()))
    return record if all(record[name] == asked[name] for name in asked) else None


def sitting(
    jobs: Sequence[Job], *, device: str, folder: Path, state_folder: Path, stop: Stop,
    progress: Progress,
) -> None:  # fmt: skip
    """Runs the jobs that are not finished, in order, until ``stop``.

    Any number of processes may sit over the same folder at once: a job is held by who runs it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for job in jobs:
        if stop():
            return
        with held(folder / f"{job.key}.lock") as mine:
            if mine and not finished(job, folder):
                record = run(
                    job, device=device, folder=folder, state_folder=state_folder, stop=stop
                )
                if device == "cuda":
                    torch.cuda.empty_cache()  # else the memory of a graph stays taken
                last = record["points"][-1]
                progress(f"{job.key}: step {record['reached']}, validation {last['validation']}")


def records_of(
    jobs: Sequence[Job],
    *,
    out: Path | None,
    progress: Progress | None,
    seconds: float | None = None,
    processes: int = 1,
) -> list[dict[str, Any]]:
    """The records of some jobs, trained where they are missing.

    Args:
        jobs: In the order in which time is spent on them.
        out: Its folder ``runs`` keeps records and checkpoints; None keeps nothing.
        progress: Told after each run.
        seconds: Stop after these; None goes on to the end.
        processes: How many train side by side; one where there is a GPU, or a limit of time.

    Returns:
        The records that there are, in the order of the jobs; some may not be done.
    """
    over = Deadline(seconds)
    with tempfile.TemporaryDirectory() as passing:
        folder = Path(passing) if out is None else out / RUNS
        tell = progress or (lambda line: None)
        if processes > 1 and seconds is None and not on_gpu():
            _side_by_side(jobs, folder, processes, tell)
        else:
            device = "cuda" if on_gpu() else "cpu"
            sitting(
                jobs,
                device=device,
                folder=folder,
                state_folder=folder,
                stop=over,
                progress=tell,
            )
        return kept_records(jobs, folder)


def _side_by_side(jobs: Sequence[Job], folder: Path, processes: int, tell: Progress) -> None:
    with Pool(processes) as pool:
        results = [pool.submit(partial(_alone, job, folder), what=job.key) for job in jobs]
        for result in results:
            for line in result():
                tell(line)


def _alone(job: Job, folder: Path) -> list[str]:
    """Trains one run in a worker; returns what it told."""
    lines: list[str] = []
    sitting(
        [job],
        device="cpu",
        folder=folder,
        state_folder=folder,
        stop=Deadline(None),
        progress=lines.append,
    )
    return lines


def kept_records(jobs: Sequence[Job], folder: Path) -> list[dict[str, Any]]:
    """The records that a folder has of some jobs, in the order of the jobs; some are not done."""
    found = (_record_of(job, folder) for job in jobs)
    return [record for record in found if record is not None]


class Deadline:
    """Says whether some seconds are over; never, for None."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def __call__(self) -> bool:
        """Whether it is too late to begin anything."""
        return self._end is not None and time.monotonic() > self._end


def on_gpu() -> bool:
    """Whether there is a GPU to train on."""
    return torch.cuda.is_available()
