"""Where scheduler and store of a run over a cluster saturate, from measured costs and virtual time.

Three costs are measured here, as CPU seconds of the process that drives a run: what it takes to
submit a block to Ray and get it back, to put a case in order, and to keep it in the file. Then the
scheduler that every run uses (``InOrder``) drives workers that only exist as a clock: a case takes
an exponential time of a given mean, and the driver is busy for its measured costs, one at a time.

    busy share of the workers = sum of the cases' times / (workers * time of the run)

Not covered: the network between machines, and what Ray's own servers need for as many workers: the
costs of Ray are those of one machine. So these are estimates, and the limit of a real cluster lies
below. Findings that fail are larger than those here, by their pictures.
"""

from __future__ import annotations

import heapq
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from dmverify.conformance.checks import CHECKS
from dmverify.conformance.spread.block import (
    Asking,
    Block,
    Done,
    Found,
    Introduced,
    introduce,
    judge_block,
)
from dmverify.conformance.spread.findings_file import FindingsFile
from dmverify.conformance.spread.in_order import MOST, InOrder
from dmverify.conformance.spread.plan import FILE, ONCE, Plan
from dmverify.conformance.spread.ray_workers import RayWorkers, ray_workers
from dmverify.lab.spread.cases import TINY, cheap_cases
from dmverify.lab.spread.plans import plan_for
from dmverify.spec.recording import Provenance

BLOCKS = 40  # that are measured
WARM = 4  # before these
OF_CASES = tuple(name for name in CHECKS if name not in ONCE)
WORKERS = (16, 64, 256, 1024, 4096)
SECONDS = (0.02, 0.1, 1.0, 10.0)  # mean time of a case
PER_WORKER = 100  # cases


@dataclass(frozen=True)
class Costs:
    """CPU seconds of the driver.

    Attributes:
        block: To submit a block to Ray and get its findings back.
        order: To put a case in order.
        keep: To keep a case in the file.
        size: Bytes of a case in the file.
    """

    block: float
    order: float
    keep: float
    size: float

    @property
    def of_case(self) -> float:
        """Seconds of a case in the largest block."""
        return self.block / MOST + self.order + self.keep


@dataclass(frozen=True)
class Row:
    """A run that was simulated.

    Attributes:
        workers: How many.
        seconds: Mean time of a case.
        busy: Share of the workers' time in which they judge.
        cases: Judged a second.
    """

    workers: int
    seconds: float
    busy: float
    cases: float


def measure(kernel: str, folder: Path) -> Costs:
    """Measures the costs with findings of a kernel, and a local cluster of one CPU.

    Args:
        kernel: Name of a kernel.
        folder: For the file.

    Raises:
        DmverifyError: If it cannot be loaded.
    """
    asking = Asking(kernel, in_process=True)
    told = introduce(asking)
    if not isinstance(told, Introduced):
        raise told.again()
    asked = tuple((one, told.contracts[0]) for one in cheap_cases(BLOCKS * MOST, TINY))
    plan = plan_for(asking, told, asked)
    block = Block(tuple(range(MOST)), asked[:MOST], OF_CASES)
    found = judge_block(asking, block)
    if not isinstance(found, tuple):
        raise found.again()
    order = _order(replace(plan, checks=OF_CASES), found)
    with FindingsFile(folder, plan, resume=None) as file:
        since = time.process_time()
        for place in plan.places:
            file.keep(place, found[place % MOST])
        keep = (time.process_time() - since) / len(asked)
    size = (folder / FILE).stat().st_size / len(asked)
    return Costs(_of_ray(asking, block), order, keep, size)


def simulate(costs: Costs, workers: int, seconds: float) -> Row:
    """One run in virtual time.

    Args:
        costs: Costs of the driver.
        workers: How many.
        seconds: Mean time of a case.
    """
    number = workers * PER_WORKER
    asking, nobody = Asking("simulated"), Introduced(Provenance(kernel="simulated"), ("article",))
    asked = tuple((f"simulated/case@{n}", "article") for n in range(number))
    # No check is the kernel's own: a case that lacks their findings would be judged once more.
    plan = replace(plan_for(asking, nobody, asked), checks=OF_CASES)
    clock = _Clock(costs, workers, seconds)
    for _ in InOrder(plan, clock, None).work():
        pass
    return Row(workers, seconds, clock.judging / (workers * clock.now), number / clock.now)


class _Clock:
    """Workers that take virtual time; the driver's costs pass on the same clock."""

    def __init__(self, costs: Costs, count: int, seconds: float) -> None:
        self.count, self.most_large = count, count
        self.now, self.judging = 0.0, 0.0
        self._costs, self._seconds = costs, seconds
        self._chance = random.Random(0)
        self._free = [0.0] * count  # when each worker is free: a heap
        self._done: list[tuple[float, int, Block]] = []
        self._number = 0

    def introduce(self) -> Introduced:
        raise NotImplementedError("nobody asks a clock who it is")

    def submit(self, block: Block) -> None:
        self.now += self._costs.block / 2
        takes = sum(self._chance.expovariate(1 / self._seconds) for _ in block.places)
        end = max(heapq.heappop(self._free), self.now) + takes
        heapq.heappush(self._free, end)
        self.judging += takes
        self._number += 1
        heapq.heappush(self._done, (end, self._number, block))

    def wait(self) -> Iterable[Done]:
        self.now = max(self.now, self._done[0][0])
        while self._done and self._done[0][0] <= self.now:
            _, _, block = heapq.heappop(self._done)
            each = self._costs.order + self._costs.keep
            self.now += self._costs.block / 2 + each * len(block.places)
            yield Done(block, ((),) * len(block.places))


class _AtOnce(_Clock):
    """Workers that take no time at all, and find what some real ones did."""

    def __init__(self, found: Found) -> None:
        super().__init__(Costs(0, 0, 0, 0), 64, 1e-9)
        self._found = found

    def wait(self) -> Iterable[Done]:
        for done in super().wait():
            yield Done(done.block, self._found[: len(done.block.places)])


def _order(plan: Plan, found: Found) -> float:
    since = time.process_time()
    for _ in InOrder(plan, _AtOnce(found), None).work():
        pass
    return (time.process_time() - since) / len(plan.asked)


def _of_ray(asking: Asking, block: Block) -> float:
    """CPU seconds of this process for a block, Ray's threads in it included."""
    with ray_workers(asking, jobs=1) as workers:
        workers.introduce()
        _there_and_back(workers, block, WARM)
        since = time.process_time()
        _there_and_back(workers, block, BLOCKS)
        return (time.process_time() - since) / BLOCKS


def _there_and_back(workers: RayWorkers, block: Block, times: int) -> None:
    for _ in range(times):
        workers.submit(block)
    while times:
        times -= len(list(workers.wait()))
