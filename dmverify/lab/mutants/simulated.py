"""Mutants of the torch simulation: methods of it changed, or what a call does beside computing.

They promise the article's contract, are judged by bounds, and can be objects for ``verify``
(``dmverify.lab.mutants.numeric:doubled``), so anyone can watch a rejection. Where the emulator has
the same mistake, the row of the catalogue is the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dmverify.conformance.adapter import Kernel
from dmverify.conformance.families import generate
from dmverify.lab.mutants import cheats, long_context, metamorphic, neighbours, numeric
from dmverify.lab.mutants.catalogue import MUTANTS
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
