"""Mutants of the sums that normalise, and of moving them to another reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.altered import on_operations
from dmverify.lab.mutants.emulator.mutation import Call, Mutation, Step
from dmverify.lab.mutants.emulator.shared import last_window
from dmverify.spec.attention.num import Num


def _last_is_zero(call: Call) -> Num:
    found = call.result()
    sums = found.array.copy()
    sums[:, last_window(call.case)] = 0
    return Num(sums, found.a)


def _keeps(name: str) -> Step:
    """The rescale of one running sum is forgotten."""

    def step(call: Call) -> Any:
        moved, beta = call.result()
        return replace(moved, **{name: getattr(call["run"], name)}), beta

    return step


def _moved_twice(call: Call) -> tuple[Num, Num]:
    reference, step = call.result()
    return reference, step * step


def _first_reference_stale(call: Call) -> Any:
    if call["w"] > 0:
        return call.result()
    return on_operations(call, ceil=lambda base, y: np.zeros_like(y))


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
