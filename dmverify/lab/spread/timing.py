"""The wall time of many cases in a loop, over processes of pytest, with ``-j`` and over Ray.

| way | start-up, told apart | what is timed |
|---|---|---|
| loop | imports, the kernel, some cases | ``judge_cases`` here |
| -j | the processes, and each has judged a block | all blocks, findings in order |
| pytest | everything until the first test begins | first test to last, over pytest-xdist |
| ray | the cluster, and each worker has judged a block | all blocks, findings in order |

Each way should take the loop's CPU seconds, divided by the processes, and as much CPU time. A
machine that others share does not compute as fast all the time: so there are rounds, each of every
fifth case, and in each the ways follow each other, beginning with another one. Sums are compared,
and what is found: findings as they are, and of pytest the margins in its JUnit file. A way whose
package is not installed is left out.
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

from dmverify.conformance.adapter import Kernel
from dmverify.conformance.checks import CHECKS
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

ROUNDS = 5
WARM = 4  # cases a process, before the clock runs
RAN = (0, 1)  # exit codes of a pytest that judged, whatever the verdicts
MARGIN = "dmverify.margin."  # begins the name of a JUnit property
Findings = tuple[Finding, ...]
Same = Callable[[Findings], bool]  # whether a way found what is due
Part = tuple[Asked, ...]


@dataclass(frozen=True)
class Clocked:
    """One way in one round: start-up, wall and CPU seconds."""

    start_up: float
    wall: float
    cpu: float


@dataclass(frozen=True)
class Timed:
    """One way, all rounds.

    Attributes:
        way: loop, -j, pytest or ray.
        start_up: Seconds before the clock runs, in the mean of the rounds.
        wall: Seconds.
        cpu: CPU seconds of every process that takes part, while the clock runs.
        ratio: Wall over the loop's CPU seconds a process.
        ratios: The same, round by round.
        same: Whether it found what the loop did.
    """

    way: str
    start_up: float
    wall: float
    cpu: float
    ratio: float
    ratios: tuple[float, ...]
    same: bool


def time_all(kernel: str, number: int, jobs: int, folder: Path) -> list[Timed]:
    """Times every way, in rounds.

    Args:
        kernel: Name of a kernel, which is asked in the process that judges.
        number: How many cases, at least ``ROUNDS``.
        jobs: Processes.
        folder: For files of pytest.

    Raises:
        HarnessError: If pytest does not come to judge.
    """
    asked = _asked(kernel, number)
    loop = _Loop(kernel)
    every: dict[str, tuple[str, Callable[[Part], tuple[Clocked, Same]]]] = {
        "loop": ("dmverify", loop.clocked),
        "-j": ("dmverify", lambda part: _spread(process_workers, kernel, part, jobs)),
        "pytest": ("xdist", lambda part: _pytest(kernel, part, jobs, folder)),
        "ray": ("ray", lambda part: _spread(ray_workers, kernel, part, jobs)),
    }
    ways = {way: run for way, (package, run) in every.items() if find_spec(package)}
    rounds = [_round(ways, asked[i::ROUNDS], first=i) for i in range(ROUNDS)]
    dues = [loop.due(asked[i::ROUNDS]) for i in range(ROUNDS)]
    return [_timed(way, rounds, dues, 1 if way == "loop" else jobs) for way in ways]


Round = dict[str, tuple[Clocked, Same]]


def _round(
    ways: dict[str, Callable[[Part], tuple[Clocked, Same]]], part: Part, *, first: int
) -> Round:
    order = list(ways)
    turned = order[first % len(order) :] + order[: first % len(order)]
    return {way: ways[way](part) for way in turned}


def _timed(way: str, rounds: list[Round], dues: list[Findings], jobs: int) -> Timed:
    """The sums of one way's rounds."""
    mine = [one[way][0] for one in rounds]
    loops = [one["loop"][0].cpu for one in rounds]
    wall, cpu = sum(one.wall for one in mine), sum(one.cpu for one in mine)
    return Timed(
        way,
        sum(one.start_up for one in mine) / len(mine),
        wall,
        cpu,
        wall / (sum(loops) / jobs),
        tuple(one.wall / (loop / jobs) for one, loop in zip(mine, loops, strict=True)),
        all(one[way][1](due) for one, due in zip(rounds, dues, strict=True)),
    )


class _Loop:
    """The plain loop; it keeps what it found, part by part."""

    def __init__(self, kernel: str) -> None:
        self._kernel, self._found = kernel, dict[Part, Findings]()

    def clocked(self, part: Part) -> tuple[Clocked, Same]:
        since = time.monotonic()
        loaded = under_test(self._kernel, in_process=True)
        _judged(loaded, part[:WARM])
        begun, spent = time.monotonic(), _cpu()
        found = self._found[part] = _judged(loaded, part)
        clocked = Clocked(begun - since, time.monotonic() - begun, _cpu() - spent)
        return clocked, lambda due: due is found

    def due(self, part: Part) -> Findings:
        return self._found[part]


def _judged(loaded: Kernel, part: Part) -> Findings:
    cases = (generate(case_id, contract=contract) for case_id, contract in part)
    return tuple(judge_cases(loaded, cases, How(tuple(CHECKS.values()), ignore)))


def _asked(kernel: str, number: int) -> Part:
    contract = under_test(kernel, in_process=True).contract
    return tuple((one, contract) for one in cheap_cases(number, ORDINARY))


def _spread(
    opened: Callable[..., AbstractContextManager[Workers]],
    kernel: str,
    asked: Part,
    jobs: int,
) -> tuple[Clocked, Same]:
    since = time.monotonic()
    asking = Asking(kernel, in_process=True)
    with opened(asking, jobs=jobs) as workers:
        told = workers.introduce()

        def run(part: Part) -> Findings:
            plan: Plan = plan_for(asking, told, part)
            lengths = lengths_of(plan.asked, plan.places)
            work = InOrder(plan, workers, None, lengths=lengths).work()
            return tuple(finding for _, findings in work for finding in findings)

        run(asked[: 4 * WARM * jobs])
        begun, spent = time.monotonic(), _cpu()
        found = run(asked)
        clocked = Clocked(begun - since, time.monotonic() - begun, _cpu() - spent)
        return clocked, lambda due: repr(found) == repr(due)  # NaN is not equal to itself


def _pytest(kernel: str, asked: Part, jobs: int, folder: Path) -> tuple[Clocked, Same]:
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
    margins = _margins(folder / "junit.xml")
    return Clocked(first - since, last - first, spent), lambda due: margins == _due_margins(due)


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
