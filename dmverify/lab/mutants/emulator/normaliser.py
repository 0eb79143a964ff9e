"""Faults of the sums that normalise, and of moving them to another reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.altered import altered
from dmverify.lab.mutants.emulator.mutation import Mutation, Step
from dmverify.lab.mutants.emulator.shared import last_window
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.case import Case
from dmverify.spec.contracts import Contract
from dmverify.spec.namespace import Array


def _last_is_zero(original: Step, case: Case, *args: Any) -> Array:
    sums = original(*args).copy()
    sums[:, last_window(case)] = 0
    return sums


def _keeps(name: str) -> Step:
    """The rescale of one running sum is forgotten."""

    def step(original: Step, case: Case, a: Arithmetic, *args: Any) -> Any:
        run = args[3]
        before = getattr(run, name)
        beta = original(a, *args)
        setattr(run, name, before)
        return beta

    return step


def _moved_twice(original: Step, case: Case, a: Arithmetic, *args: Any) -> tuple[Array, Array]:
    reference, factor = original(a, *args)
    return reference, a.mul(factor, factor)


def _first_reference_stale(
    original: Step, case: Case, a: Arithmetic, contract: Contract, *args: Any
) -> Any:
    stale = altered(a, ceil=lambda base, x: np.zeros_like(x))
    return original(stale if args[-1] == 0 else a, contract, *args)


MUTATIONS = {
    "normaliser-last-tile": Mutation({"forward._code_sums": _last_is_zero}),
    "row-sum-last-tile": Mutation({"forward.row_sum": _last_is_zero}),
    "normaliser-unrounded": Mutation(contract={"normaliser": "unrounded"}),
    "rescale-skipped": Mutation({"forward._advance": _keeps("o")}),
    "rescale-twice": Mutation({"forward._saved": _moved_twice}),
    "row-sum-rescale-skipped": Mutation({"forward._advance": _keeps("l")}),
    "first-reference-stale": Mutation({"forward._advance": _first_reference_stale}),
}
"""By the mutant's id."""
