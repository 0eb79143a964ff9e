"""Kills a run again and again, at random times, and compares what it leaves in the end.

``dmverify lab kills --kills 100 --seed 0 --out FILE``. Runs
of a kernel that computes nothing are ended by SIGKILL, half of them at a random time and half when
the process is seen in a call that changes the disk (Linux shows which one, in /proc), and are
started again until one ends by itself. Its directory then has the bytes of a run that nobody
disturbed, or the program exits with 1. ``inside`` counts kills after which a half-written file or a
journal of SQLite lay on the disk, or that met such a call.
"""

from __future__ import annotations

import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dmverify.conformance.adapter import Forward, Support, Supported
from dmverify.conformance.journal import JOURNAL
from dmverify.conformance.questions import list_asked
from dmverify.conformance.store import FOOTER
from dmverify.conformance.three_steps import run_cases
from dmverify.errors import KernelError
from dmverify.files import PART
from dmverify.spec.case import Case, Outputs
from dmverify.spec.recording import Provenance

CASES = tuple(f"gaussian/spread-2,heads=4,kv_heads=4,queries=512,keys=512@{n}" for n in range(4))
# Numbers of write, pwrite64, fsync, fdatasync, rename, mkdir, unlink, renameat2 on x86-64.
CALLS = (1, 18, 74, 75, 82, 83, 87, 316)
HALF = (PART, "-journal")


class Copies:
    """A kernel whose outputs are its inputs: writing them is all that takes time."""

    contract = "article"
    info = Provenance("copies")

    def supports(self, case: Case) -> Support:
        """Every case."""
        return Supported()

    def forward(self, case: Case) -> Forward:
        """Q, and zeros."""
        outputs = self.backward(case)
        return Forward(outputs.o, outputs.lse)

    def backward(self, case: Case) -> Outputs:
        """Copies, in float32 that BF16 does not hold."""
        made = {name: x + np.float32(2**-20) for name, x in case.inputs.items()}
        shape = case.problem.shapes()["lse"]
        return Outputs(made["q"], np.zeros(shape, np.float32), made["do"], made["k"], made["v"])


@dataclass
class Tally:
    """What was seen.

    Attributes:
        kills: Runs that were killed.
        inside: Of these, how many in the middle of a change to the disk.
        finished: Directories that were completed.
        different: Of these, how many have other bytes than an undisturbed one.
    """

    kills: int = 0
    inside: int = 0
    finished: int = 0
    different: int = 0
    files: list[str] = field(default_factory=list)


def search(kills: int, seed: int, folder: Path) -> Tally:
    """Kills so many runs, whose directories lie in a folder."""
    draws, tally = random.Random(seed), Tally()
    start = time.monotonic()
    _end(_started(folder / "whole"))
    length, due = time.monotonic() - start, contents(folder / "whole")
    tally.files = sorted(due)
    while tally.kills < kills:
        out = folder / f"r{tally.finished}"
        while tally.kills < kills and not _complete(out):
            _killed(out, length, draws, tally)
        if not _complete(out):
            _end(_started(out))
        tally.finished += 1
        tally.different += contents(out) != due
    return tally


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, by its path in it."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _complete(out: Path) -> bool:
    """Whether a run has ended: its journal goes last."""
    return (out / FOOTER).exists() and not (out / JOURNAL).exists()


def _killed(out: Path, length: float, draws: random.Random, tally: Tally) -> None:
    """Starts a run and kills it, unless it ends before."""
    child = _started(out)
    time.sleep(draws.uniform(0, length))
    caught = draws.random() < 0.5 and _caught(child)
    os.kill(child, signal.SIGKILL)
    if _end(child) == 0:
        return
    half = out.exists() and any(path.name.endswith(HALF) for path in out.rglob("*"))
    tally.kills += 1
    tally.inside += caught or half


def _caught(child: int) -> bool:
    """Waits until a process changes the disk; False if it ended before."""
    while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if _call(child) in CALLS:
            return True
    return False


def _call(process: int) -> int:
    """The number of the system call that a process is in, -1 if it is in none."""
    try:
        word = Path(f"/proc/{process}/syscall").read_text().split()[0]
        return int(word)
    except (OSError, ValueError, IndexError):  # it runs, or is gone
        return -1


def _started(out: Path) -> int:
    """A run in a process of its own, in which everything is loaded already."""
    if child := os.fork():
        return child
    try:
        run_cases(Copies(), list_asked(contract="article", cases=CASES), out=out)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)
    os._exit(0)


def _end(child: int) -> int:
    """Its exit code, below 0 for a signal.

    Raises:
        KernelError: If the run failed.
    """
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code > 0:
        raise KernelError(
            f"a run that exits with {code}",
            rule="a run that was killed continues when it is started again",
            fix="read the message that it ends with",
        )
    return code
