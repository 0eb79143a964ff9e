"""Mutants of the torch simulation: methods of it changed, or what a call does beside computing.

They promise the article's contract, are judged by bounds, and can be objects for ``verify``
(``dmverify.lab.mutants.numeric:doubled``), so anyone can watch a rejection. Where the emulator has
the same mistake, the row of the catalogue is the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from dmverify.conformance.adapter import Kernel
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.runner import run
from dmverify.conformance.verdict import Finding
from dmverify.lab.mutants import cheats, long_context, metamorphic, neighbours, numeric
from dmverify.lab.mutants.answers import CONFORMS, Answered, alarms, distance, known_of, rejecting
from dmverify.lab.mutants.catalogue import MUTANTS, Key, Mutant
from dmverify.lab.mutants.matrix import Progress, Row, drawn, row_of
from dmverify.spec.case import Case

PARTS = (numeric, long_context, neighbours, metamorphic, cheats)

MUTATIONS: Mapping[str, Callable[[], Kernel]] = MappingProxyType(
    {name: make for part in PARTS for name, make in part.MUTATIONS.items()}
)
"""What makes a fresh kernel, by the mutant's id."""


def asked(name: str) -> tuple[Kernel, list[Case]]:
    """A fresh kernel and the cases that show what is wrong with it, under what it promises."""
    kernel = MUTATIONS[name]()
    cases = [generate(case, contract=kernel.contract) for case in MUTANTS[name].cases]
    return kernel, cases


class SimulationMutants:
    """See ``dmverify.lab.mutants.matrix.BackEnd``.

    Every check takes part, those of a second question, of memory and of conduct too.
    """

    name, by_bits, checks = "simulation", False, len(CHECKS) - 1
    provenance: Mapping[str, Any] = {}
    made: Collection[str] = MUTATIONS.keys()

    def keys(self, mutant: Mutant) -> tuple[Key, ...]:
        """Under the contract that the wrong kernel promises, mostly the article's."""
        promised = MUTATIONS[mutant.id]().contract
        return tuple((case, promised) for case in mutant.cases)

    def rows(self, mutants: Sequence[Mutant], progress: Progress) -> Iterator[Row]:
        """Each asked its cases in order; a public rule sees the first answer to each."""
        for mutant in mutants:
            progress(mutant.id)
            kernel, cases = asked(mutant.id)
            yield row_of(mutant, mutant.check, [_answered(mutant.id, kernel, c) for c in cases])

    def alarms(
        self, mutants: Sequence[Mutant], seeds: int, progress: Progress
    ) -> dict[Key, tuple[str, ...]]:
        """The simulation itself; where the reference was promised, the emulator by its bounds."""
        found: dict[Key, tuple[str, ...]] = {}
        for key in drawn((key for mutant in mutants for key in self.keys(mutant)), seeds):
            progress(f"the correct kernel on {key[0]}")
            if key[1] == Simulation.contract:
                findings = _judged(Simulation(), generate(key[0], contract=key[1]))
                found[key] = tuple(n for n, f in findings.items() if f.verdict not in CONFORMS)
            else:
                found[key] = alarms(known_of(*key))
        return found


def _judged(kernel: Kernel, case: Case) -> dict[str, Finding]:
    found = run(kernel, [case], checks=CHECKS.values(), emit=ignore, use_bits=False)
    return {finding.check: finding for finding in found}


def _answered(name: str, kernel: Kernel, case: Case) -> Answered:
    found, known = _judged(kernel, case), known_of(case.id, case.contract)
    outputs = MUTATIONS[name]().backward(generate(case.id, contract=case.contract))
    rejected = rejecting(found)
    return Answered(
        with_bits=rejected,
        without_bits=rejected,
        margin=float(np.nanmax([finding.margin for finding in found.values()])),
        error=distance(outputs, known.right),
        rules=known.rules_noticing(outputs),
    )
