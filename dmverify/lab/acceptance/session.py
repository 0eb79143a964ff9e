"""What the stages share: the folder of the logs, the processes, the clock."""

from __future__ import annotations

import json
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


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
