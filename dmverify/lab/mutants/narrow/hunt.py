"""Which narrow faults a level's cases reject, and by which case each.

The correct kernel answers a case once; the fault's harm is done to the answer, and the bands of the
outputs judge it. Cases are tried in the order of their size, so a kill is named by a small one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from dmverify.conformance.adapter import Kernel, Supported
from dmverify.conformance.checks.bands import judge_band
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.families import generate
from dmverify.conformance.families.generate import problem_of
from dmverify.conformance.kernels.emulator import Emulator
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.selection import Asked, select_pairs
from dmverify.conformance.verdict import Verdict
from dmverify.lab.mutants.narrow.fault import Narrow, Narrowed
from dmverify.lab.mutants.narrow.table import SEVERAL
from dmverify.spec.case import Case
from dmverify.spec.contracts import DELTAS, DS_CASTS
from dmverify.spec.problem import Problem

SIMULATED = ("article",)
EMULATED = tuple(f"bundled:delta={d},ds_cast={c}" for d in DELTAS for c in DS_CASTS)


@dataclass(frozen=True)
class Hunted:
    """How a fault fared.

    Attributes:
        fault: Its id.
        met: Cases of the level that its condition holds on, as far as they were tried.
        case: The one that rejects it; empty if none does.
    """

    fault: str
    met: int
    case: str


def hunt(level: str, faults: Iterable[Narrow], *, seed: int = 0) -> Iterator[Hunted]:
    """Tries every fault on the cases of a level, smallest first, until one rejects it.

    Args:
        level: smoke or full.
        faults: Rows of ``NARROW``.
        seed: First seed of the level.
    """
    by_size = {name: _sized(level, name, seed) for name in (SIMULATED, EMULATED)}
    for fault in faults:
        contracts = EMULATED if fault.id in SEVERAL else SIMULATED
        yield _hunt(
            fault, by_size[contracts], Emulator() if contracts is EMULATED else Simulation()
        )


def _sized(level: str, contracts: tuple[str, ...], seed: int) -> list[tuple[Asked, Problem]]:
    asked = select_pairs(level, contracts, seed=seed)
    return sorted(((pair, problem_of(pair[0])) for pair in asked), key=lambda row: _size(row[1]))


def _size(p: Problem) -> int:
    return p.batch * p.heads * (p.queries + 1) * (p.keys + 1) * p.head_dim


def _hunt(fault: Narrow, cases: list[tuple[Asked, Problem]], base: Kernel) -> Hunted:
    met = 0
    for (case_id, contract), problem in cases:
        if not fault.shape(problem):
            continue
        case = generate(case_id, contract=contract)
        if not fault.values(case):
            continue
        met += 1
        if _rejected(fault, case, base):
            return Hunted(fault.id, met, case.id)
    return Hunted(fault.id, met, "")


def _rejected(fault: Narrow, case: Case, base: Kernel) -> bool:
    kernel = Narrowed(base, fault)
    if not isinstance(kernel.supports(case), Supported):
        return False
    evidence = _judged(case.id, case.contract)
    answer = kernel.backward(case)
    return any(
        judge_band(name, case.id, array, evidence.bands[name]).verdict is Verdict.FAILS
        for name, array in answer.items()
    )


@lru_cache(maxsize=4)  # several faults have the same smallest case
def _judged(case_id: str, contract: str) -> Evidence:
    """The case with what its contract allows; the answer in it is not used."""
    case = generate(case_id, contract=contract)
    base: Kernel = Simulation() if contract in SIMULATED else Emulator()
    return Evidence(case, base.forward(case), base.backward(case))
