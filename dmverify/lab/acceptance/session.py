"""What the stages share: the folder of the logs, the processes, the clock."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SERIAL = multiprocessing.Value("i", 0)


@dataclass
class Session:
    """One run of the acceptance.

    Attributes:
        folder: Where logs and recordings go.
        pool: Processes that compile and judge.
        seconds: Time after which no new case starts.
    """

    folder: Path
    pool: ProcessPoolExecutor
    seconds: float
    _began: float = field(default_factory=time.monotonic)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    @property
    def over(self) -> bool:
        """Whether the time is used up."""
        return self.elapsed > self.seconds

    def done(self, stage: str) -> bool:
        """Whether an earlier run has passed the stage."""
        path = self.folder / f"{stage}.json"
        return path.exists() and bool(json.loads(path.read_text()).get("ok"))

    def log(self, stage: str, result: dict[str, Any]) -> None:
        """Writes a stage's result."""
        (self.folder / f"{stage}.json").write_text(json.dumps(result, indent=1) + "\n")


def open_pool() -> ProcessPoolExecutor:
    """Processes for all cores but one; open it before CUDA starts, since they are forked."""
    workers = max(1, (os.cpu_count() or 2) - 1)
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_settle)
    list(pool.map(abs, range(workers)))
    return pool


def _settle() -> None:
    """One core a process: the array code would start a thread for every core it may use."""
    with _SERIAL.get_lock():
        serial = _SERIAL.value
        _SERIAL.value += 1
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[(serial + 1) % len(cores)]})
