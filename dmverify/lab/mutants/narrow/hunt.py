"""Which narrow mutants a level's cases reject, and by which case each.

The correct kernel answers a case once; the mutant's harm is done to the answer, and the bands of
the outputs judge it. Cases are tried in the order of their size, so a kill is named by a small one.
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
from dmverify.lab.mutants.narrow.mutant import Narrow, Narrowed
from dmverify.spec.case import Case
from dmverify.spec.contracts import DELTAS, DS_CASTS
from dmverify.spec.problem import Problem

SIMULATED = ("article",)
EMULATED = tuple(f"bundled:delta={d},ds_cast={c}" for d in DELTAS for c in DS_CASTS)


@dataclass(frozen=True)
class Hunted:
    """How a mutant fared.

    Attributes:
        mutant: Its id.
        met: Cases of the level that its condition holds on, as far as they were tried.
        case: The one that rejects it; empty if none does.
    """

    mutant: str
    met: int
    case: str


def hunt(level: str, mutants: Iterable[Narrow], *, seed: int = 0) -> Iterator[Hunted]:
    """Tries every mutant on the cases of a level, smallest first, until one rejects it.

    Args:
        level: smoke or full.
        mutants: Rows of ``NARROW``.
        seed: First seed of the level.
    """
    by_size = {name: _sized(level, name, seed) for name in (SIMULATED, EMULATED)}
    for mutant in mutants:
        if mutant.section == "contract":
            yield _hunt(mutant, by_size[EMULATED], Emulator())
        else:
            yield _hunt(mutant, by_size[SIMULATED], Simulation())


def _sized(level: str, contracts: tuple[str, ...], seed: int) -> list[tuple[Asked, Problem]]:
    asked = select_pairs(level, contracts, seed=seed)
    return sorted(((pair, problem_of(pair[0])) for pair in asked), key=lambda row: _size(row[1]))


def _size(p: Problem) -> int:
    return p.batch * p.heads * (p.queries + 1) * (p.keys + 1) * p.head_dim


def _hunt(mutant: Narrow, cases: list[tuple[Asked, Problem]], base: Kernel) -> Hunted:
    met = 0
    for (case_id, contract), problem in cases:
        if not mutant.fits(problem):
            continue
        case = generate(case_id, contract=contract)
        if not mutant.holds(case):
            continue
        met += 1
        if _rejected(mutant, case, base):
            return Hunted(mutant.id, met, case.id)
    return Hunted(mutant.id, met, "")


def _rejected(mutant: Narrow, case: Case, base: Kernel) -> bool:
    kernel = Narrowed(base, mutant)
    if not isinstance(kernel.supports(case), Supported):
        return False
    evidence = _judged(case.id, case.contract)
    answer = kernel.backward(case)
    return any(
        judge_band(name, case.id, array, evidence.bands[name]).verdict is Verdict.FAILS
        for name, array in answer.items()
    )


@lru_cache(maxsize=4)  # several mutants have the same smallest case
def _judged(case_id: str, contract: str) -> Evidence:
    """The case with what its contract allows; the answer in it is not used."""
    case = generate(case_id, contract=contract)
    base: Kernel = Simulation() if contract in SIMULATED else Emulator()
    return Evidence(case, base.forward(case), base.backward(case))
