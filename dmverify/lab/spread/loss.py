"""Runs over a local Ray cluster whose workers are killed, and then the run itself.

One process judges all cases. Then a run over Ray does: a worker is killed when a quarter is judged,
the whole run with all that it started when half is, and a worker of the run that goes on when three
quarters are. The two reports and JUnit files must be the same byte for byte.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dmverify.conformance.spread.findings_file import count_kept
from dmverify.conformance.spread.plan import FILE
from dmverify.lab.spread.cases import TINY, cheap_cases
from dmverify.lab.spread.processes import below

FILES = ("report.json", "junit.xml")
POLL = 0.5  # seconds between two looks
WORKER = "ray::"  # begins the title of a worker's process


@dataclass(frozen=True)
class Survived:
    """What became of it.

    Attributes:
        cases: How many were asked.
        jobs: CPUs of the cluster.
        judged_at: How many cases had been judged when something was killed.
        killed: What that was.
        asked_again: Cases of which the file has findings twice.
        same: Whether reports and JUnit files are the same.
        codes: Exit codes of one process, of the killed run, of the one that went on.
        seconds: Wall time of these.
    """

    cases: int
    jobs: int
    judged_at: tuple[int, ...]
    killed: tuple[str, ...]
    asked_again: int
    same: bool
    codes: tuple[int, ...]
    seconds: tuple[float, ...]


def survive(kernel: str, number: int, jobs: int, folder: Path) -> Survived:
    """Runs all of it.

    Args:
        kernel: Name of a kernel.
        number: How many cases.
        jobs: CPUs of the cluster.
        folder: Where reports go.
    """
    named = [word for one in cheap_cases(number, TINY) for word in ("--case", one)]
    verify = [sys.executable, "-m", "dmverify", "verify", kernel, "--in-process", *named]
    spread = [*verify, "--executor", "ray", "-j", str(jobs), "--out", str(folder / "ray")]
    plain = _Run([*verify, "--out", str(folder / "plain")])
    plain.end()
    begun = _Run(spread)
    kept = folder / "ray" / FILE
    at = [begun.when(kept, number // 4, begun.kill_worker)]
    at.append(begun.when(kept, number // 2, begun.kill))
    begun.end()
    went_on = _Run([*spread, "--resume"])
    at.append(went_on.when(kept, 3 * number // 4, went_on.kill_worker))
    went_on.end()
    runs = (plain, begun, went_on)
    same = all(
        (folder / "plain" / name).read_bytes() == (folder / "ray" / name).read_bytes()
        for name in FILES
    )
    return Survived(
        number,
        jobs,
        tuple(at),
        ("a worker", "the run", "a worker"),
        count_kept(kept) - 1 - number,
        same,
        tuple(run.code for run in runs),
        tuple(round(run.seconds, 1) for run in runs),
    )


class _Run:
    """A command in a process of its own, and what that starts."""

    def __init__(self, words: Sequence[str]) -> None:
        self._since = time.monotonic()
        self._process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.code, self.seconds = 0, 0.0

    def when(self, kept: Path, number: int, act: Callable[[], None]) -> int:
        """Does something once so many cases are kept, unless the run ends before; how many were."""
        while (found := count_kept(kept)) < number and self._process.poll() is None:
            time.sleep(POLL)
        if self._process.poll() is None:
            act()
        return found

    def kill_worker(self) -> None:
        """Kills one worker that judges."""
        workers = [one for one in below(self._process.pid) if _title(one).startswith(WORKER)]
        busy = [one for one in workers if "_judge" in _title(one)]
        for one in (busy or workers)[:1]:
            os.kill(one, signal.SIGKILL)

    def kill(self) -> None:
        """Kills the command, and what it started and would have ended."""
        for one in (self._process.pid, *below(self._process.pid)):
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def end(self) -> None:
        """Waits for the end."""
        self.code = self._process.wait()
        self.seconds = time.monotonic() - self._since


def _title(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
