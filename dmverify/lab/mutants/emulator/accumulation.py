"""Faults of what is added up: promotion to float32, weights of windows, rows of V."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.altered import as_accumulated, on_operations
from dmverify.lab.mutants.emulator.mutation import Mutation, Step
from dmverify.lab.mutants.emulator.shared import last_window
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.num import Num
from dmverify.spec.attention.operands import BlockScaled
from dmverify.spec.attention.windows import Running, Softmax
from dmverify.spec.case import Case
from dmverify.spec.namespace import Array

BOTH_SIGNS = (
    "terms have both signs, and the order within a window may lose more than windows among them do"
)
LANES = 4  # sums of a row have up to this many columns, sums of V have head_dim


def unpromoted(every: int = 0) -> Step:
    """Sums held in the tensor core, and moved to float32 every so many windows, or never."""

    def step(original: Step, case: Case, *args: Any, **named: Any) -> Any:
        added = 0

        def fma(base: Arithmetic, x: Array, y: Array, z: Array) -> Array:
            nonlocal added
            total = base.fma(x, y, z)
            if total.shape[-1] <= LANES:
                return total
            added += 1
            return total if every and added % every == 0 else as_accumulated(total)

        return on_operations(original, {"fma": fma}, args, named)

    return step


def _without_beta(
    original: Step, case: Case, *args: Any, window: int, weight: Num
) -> tuple[Num, Num]:
    found: tuple[Num, Num] = original(*args, window=window, weight=weight.of(1.0))
    return found


def _without_value_scale(
    original: Step, case: Case, *args: Any, window: int, weight: Num
) -> tuple[Num, Num]:
    return original(*args, window=window, weight=weight)[0], weight


def _without_last(
    original: Step, case: Case, *args: Any, window: int, weight: Num
) -> tuple[Num, Num]:
    acc, scale = original(*args, window=window, weight=weight)
    return acc, scale * 0.0 if window == last_window(case) else scale


def _window_twice(original: Step, case: Case, x: Softmax, run: Running, w: int) -> Any:
    moved, beta = original(x, run, w)
    return moved, beta * 2.0 if w == 0 else beta


def _next_rows_of_v(
    original: Step, case: Case, codes: Num, y: BlockScaled, **at: Any
) -> tuple[Num, Num]:
    moved = BlockScaled(y.codes[np.arange(len(y.codes)) ^ 1], y.scale)
    found: tuple[Num, Num] = original(codes, moved, **at)
    return found


MUTATIONS = {
    "no-promotion": Mutation({"windows.online": unpromoted()}),
    "promotion-every-8th": Mutation({"windows.online": unpromoted(8)}),
    "promotion-without-scale": Mutation({"windows.combination": _without_beta}),
    "promotion-dropped-on-last": Mutation({"windows.combination": _without_last}),
    "no-promotion-dq": Mutation({"windows.query_gradient": unpromoted()}),
    "no-promotion-dk": Mutation({"tokens.token_chain": unpromoted()}),
    "value-scale-dropped": Mutation({"windows.combination": _without_value_scale}),
    "tile-twice": Mutation({"windows.advance": _window_twice}),
    "v-rows-swapped": Mutation({"windows.combination": _next_rows_of_v}),
}
"""By the mutant's id."""
