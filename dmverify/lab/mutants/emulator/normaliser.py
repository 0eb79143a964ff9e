"""Faults of the sums that normalise, and of moving them to another reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.altered import on_operations
from dmverify.lab.mutants.emulator.mutation import Mutation, Step
from dmverify.lab.mutants.emulator.shared import last_window
from dmverify.spec.attention.num import Num
from dmverify.spec.attention.windows import Running, Softmax
from dmverify.spec.case import Case


def _last_is_zero(original: Step, case: Case, *args: Any, **named: Any) -> Num:
    found: Num = original(*args, **named)
    sums = found.array.copy()
    sums[:, last_window(case)] = 0
    return Num(sums, found.a)


def _keeps(name: str) -> Step:
    """The rescale of one running sum is forgotten."""

    def step(original: Step, case: Case, x: Softmax, run: Running, w: int) -> Any:
        moved, beta = original(x, run, w)
        kept: Any = {name: getattr(run, name)}
        return replace(moved, **kept), beta

    return step


def _moved_twice(original: Step, case: Case, *args: Any) -> tuple[Num, Num]:
    reference, step = original(*args)
    return reference, step * step


def _first_reference_stale(original: Step, case: Case, x: Softmax, run: Running, w: int) -> Any:
    if w > 0:
        return original(x, run, w)
    return on_operations(original, {"ceil": lambda base, y: np.zeros_like(y)}, (x, run, w), {})


MUTATIONS = {
    "normaliser-last-tile": Mutation({"windows.code_sums": _last_is_zero}),
    "row-sum-last-tile": Mutation({"windows.row_sum": _last_is_zero}),
    "normaliser-unrounded": Mutation(contract={"normaliser": "unrounded"}),
    "rescale-skipped": Mutation({"windows.advance": _keeps("o")}),
    "rescale-twice": Mutation({"windows.saved": _moved_twice}),
    "row-sum-rescale-skipped": Mutation({"windows.advance": _keeps("l")}),
    "first-reference-stale": Mutation({"windows.advance": _first_reference_stale}),
}
"""By the mutant's id."""
