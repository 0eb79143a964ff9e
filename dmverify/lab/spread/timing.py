"""The wall time of many cases in a loop, over processes of pytest, with ``-j`` and over Ray.

| way | start-up, told apart | what is timed |
|---|---|---|
| loop | imports, the kernel, some cases | ``judge_cases`` here |
| -j | the processes, and each has judged a block | all blocks, findings in order |
| pytest | everything until the first test begins | first test to last, over pytest-xdist |
| ray | the cluster, and each worker has judged a block | all blocks, findings in order |

Each way should take the loop's CPU seconds, divided by the processes, and as much CPU time. A
machine that others share does not compute as fast all the time, so the loop runs in halves, between
the ways: each is compared with the half before it and the other half, after it. What they find is
compared: findings as they are, and of pytest the margins in its JUnit file. A way whose package is
not installed is left out.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

from dmverify.conformance.checks import CHECKS, Check
from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate
from dmverify.conformance.resolve import under_test
from dmverify.conformance.runner import How, judge_cases
from dmverify.conformance.selection import Asked
from dmverify.conformance.spread.block import Asking, Workers
from dmverify.conformance.spread.in_order import InOrder
from dmverify.conformance.spread.lengths import lengths_of
from dmverify.conformance.spread.plan import Plan
from dmverify.conformance.spread.process_workers import process_workers
from dmverify.conformance.spread.ray_workers import ray_workers
from dmverify.conformance.verdict import Finding
from dmverify.errors import HarnessError
from dmverify.lab.spread.cases import ORDINARY, cheap_cases
from dmverify.lab.spread.clock import FILE
from dmverify.lab.spread.plans import plan_for
from dmverify.lab.spread.processes import cpu_seconds

WARM = 4  # cases a process, before the clock runs
RAN = (0, 1)  # exit codes of a pytest that judged, whatever the verdicts
MARGIN = "dmverify.margin."  # begins the name of a JUnit property
Findings = tuple[Finding, ...]
Clocked = tuple[float, float, float]  # start-up, wall and CPU seconds
Way = tuple[Clocked, Callable[[Findings], bool]]  # and whether it found what is due


@dataclass(frozen=True)
class Timed:
    """One way.

    Attributes:
        way: loop, -j, pytest or ray.
        start_up: Seconds before the clock runs.
        wall: Seconds.
        cpu: CPU seconds of every process that takes part, while the clock runs.
        loop: CPU seconds of the loop, half of it just before and half just after.
        ratio: Wall over the loop's CPU seconds a process.
        same: Whether it found what the loop did.
    """

    way: str
    start_up: float
    wall: float
    cpu: float
    loop: float
    ratio: float
    same: bool


@dataclass(frozen=True)
class Half:
    """Half of the loop's cases.

    Attributes:
        wall: Seconds.
        cpu: CPU seconds.
        found: What it found.
    """

    wall: float
    cpu: float
    found: Findings


class Loop:
    """The plain loop, whose halves take turns.

    Args:
        kernel: Name of a kernel.
        asked: Every case.
    """

    def __init__(self, kernel: str, asked: tuple[Asked, ...]) -> None:
        since = time.monotonic()
        self._kernel = under_test(kernel, in_process=True)
        middle = len(asked) // 2
        every = tuple(CHECKS.values())
        of_cases = tuple(check for check in every if not check.once)  # the rest in the first half
        self._parts = (asked[:middle], every), (asked[middle:], of_cases)
        self._judge(asked[:WARM], every)
        self.start_up = time.monotonic() - since
        self.halves: list[Half] = []

    def next_half(self) -> None:
        """Judges the half whose turn it is."""
        part = self._parts[len(self.halves) % 2]
        begun, spent = time.monotonic(), _cpu()
        found = self._judge(*part)
        self.halves.append(Half(time.monotonic() - begun, _cpu() - spent, found))

    @property
    def last_cpu(self) -> float:
        """CPU seconds of the last two halves, which are all cases."""
        return sum(half.cpu for half in self.halves[-2:])

    @property
    def found(self) -> Findings:
        """What all cases gave, in order."""
        return self.halves[0].found + self.halves[1].found

    def timed(self) -> Timed:
        """The mean of its rounds."""
        rounds = len(self.halves) / 2
        wall, cpu = (
            sum(x) / rounds for x in zip(*((h.wall, h.cpu) for h in self.halves), strict=True)
        )
        return Timed("loop", self.start_up, wall, cpu, cpu, wall / cpu, same=True)

    def _judge(self, part: tuple[Asked, ...], checks: tuple[Check, ...]) -> Findings:
        cases = (generate(case_id, contract=contract) for case_id, contract in part)
        return tuple(judge_cases(self._kernel, cases, How(checks, ignore)))


def time_all(kernel: str, number: int, jobs: int, folder: Path) -> list[Timed]:
    """Times every way, one after the other, halves of the loop between them.

    Args:
        kernel: Name of a kernel, which is asked in the process that judges.
        number: How many cases, at least 2.
        jobs: Processes.
        folder: For files of pytest.

    Raises:
        HarnessError: If pytest does not come to judge.
    """
    asked = _asked(kernel, number)
    loop = Loop(kernel, asked)
    ways: dict[str, tuple[str, Callable[[], Way]]] = {
        "-j": ("dmverify", lambda: _spread(process_workers, kernel, asked, jobs)),
        "pytest": ("xdist", lambda: _pytest(kernel, asked, jobs, folder)),
        "ray": ("ray", lambda: _spread(ray_workers, kernel, asked, jobs)),
    }
    loop.next_half()
    rows = []
    for way, (package, timed) in ways.items():
        if find_spec(package):
            clocked, same = timed()
            loop.next_half()
            ratio = clocked[1] / (loop.last_cpu / jobs)
            rows.append(Timed(way, *clocked, loop.last_cpu, ratio, same(loop.found)))
    return [loop.timed(), *rows]


def _asked(kernel: str, number: int) -> tuple[Asked, ...]:
    contract = under_test(kernel, in_process=True).contract
    return tuple((one, contract) for one in cheap_cases(number, ORDINARY))


def _spread(
    opened: Callable[..., AbstractContextManager[Workers]],
    kernel: str,
    asked: tuple[Asked, ...],
    jobs: int,
) -> Way:
    since = time.monotonic()
    asking = Asking(kernel, in_process=True)
    with opened(asking, jobs=jobs) as workers:
        told = workers.introduce()

        def run(part: tuple[Asked, ...]) -> Findings:
            plan: Plan = plan_for(asking, told, part)
            lengths = lengths_of(plan.asked, plan.places)
            work = InOrder(plan, workers, None, lengths=lengths).work()
            return tuple(finding for _, findings in work for finding in findings)

        run(asked[: 4 * WARM * jobs])
        begun, spent = time.monotonic(), _cpu()
        found = run(asked)
        clocked = begun - since, time.monotonic() - begun, _cpu() - spent
        return clocked, lambda due: repr(found) == repr(due)  # NaN is not equal to itself


def _pytest(kernel: str, asked: tuple[Asked, ...], jobs: int, folder: Path) -> Way:
    named = [word for case_id, _ in asked for word in ("--dmverify-case", case_id)]
    words = ["-m", "pytest", "-q", "-n", str(jobs), "-c", os.devnull, f"--rootdir={folder}"]
    words += ["-p", "dmverify.lab.spread.clock", f"--junitxml={folder / 'junit.xml'}"]
    words += ["-p", "no:cacheprovider", "--dmverify-in-process", f"--dmverify-kernel={kernel}"]
    clock = folder / "clock.json"
    since = time.time()
    outside = {name: x for name, x in os.environ.items() if not name.startswith("PYTEST_")}
    # It runs elsewhere: what a relative PYTHONPATH names must still be found there.
    path = os.pathsep.join(str(Path(one or ".").resolve()) for one in sys.path)
    done = subprocess.run(
        [sys.executable, *words, *named],
        cwd=folder,
        env=outside | {FILE: str(clock), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in RAN:
        raise HarnessError(
            f"pytest ended with exit code {done.returncode}: {(done.stdout + done.stderr)[-300:]}",
            rule="every way judges every case",
            fix="run the command with fewer cases and look at what pytest says",
        )
    first, last, spent = json.loads(clock.read_text())
    clocked = first - since, last - first, spent
    return clocked, lambda due: _margins(folder / "junit.xml") == _due_margins(due)


def _margins(path: Path) -> dict[tuple[str, str], float]:
    return {
        (case.get("name", ""), name.removeprefix(MARGIN)): float(one.get("value", "nan"))
        for case in ElementTree.parse(path).iter("testcase")
        for one in case.iter("property")
        if (name := one.get("name", "")).startswith(MARGIN)
    }


def _due_margins(due: Findings) -> dict[tuple[str, str], float]:
    """What pytest's file has to say; checks of the kernel itself are a test of their own there."""
    return {
        ("kernel" if CHECKS[one.check].once else one.case, one.check): float(f"{one.margin:.6g}")
        for one in due
        if one.check in CHECKS and not math.isnan(one.margin)
    }


def _cpu() -> float:
    """CPU seconds of this process, and of all that it started."""
    return cpu_seconds(os.getpid())
