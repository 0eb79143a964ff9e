"""Faults of what is added up: promotion to float32, weights of windows, rows of V."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.altered import altered, as_accumulated
from dmverify.lab.mutants.emulator.mutation import Mutation, Step
from dmverify.lab.mutants.emulator.shared import last_window
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.operands import Operand
from dmverify.spec.attention.products import Coded, one
from dmverify.spec.case import Case
from dmverify.spec.contracts import Contract
from dmverify.spec.namespace import Array

BOTH_SIGNS = (
    "terms have both signs, and the order within a window may lose more than windows among them do"
)
LANES = 4  # sums of a row have up to this many columns, sums of V have head_dim


def unpromoted(every: int = 0) -> Step:
    """Sums held in the tensor core, and moved to float32 every so many windows, or never."""

    def step(original: Step, case: Case, a: Arithmetic, *args: Any, **named: Any) -> Any:
        added = 0

        def fma(base: Arithmetic, x: Array, y: Array, z: Array) -> Array:
            nonlocal added
            total = base.fma(x, y, z)
            if total.shape[-1] <= LANES:
                return total
            added += 1
            return total if every and added % every == 0 else as_accumulated(total)

        return original(altered(a, fma=fma), *args, **named)

    return step


def _without_beta(
    original: Step, case: Case, a: Arithmetic, *args: Any, window: int, weight: Array
) -> Any:
    return original(a, *args, window=window, weight=one(a)[0])


def _without_value_scale(
    original: Step, case: Case, a: Arithmetic, *args: Any, window: int, weight: Array
) -> Any:
    return original(a, *args, window=window, weight=weight)[0], weight


def _without_last(
    original: Step, case: Case, a: Arithmetic, *args: Any, window: int, weight: Array
) -> Any:
    raw, factor = original(a, *args, window=window, weight=weight)
    return raw, np.zeros_like(factor) if window == last_window(case) else factor


def _window_twice(original: Step, case: Case, a: Arithmetic, *args: Any) -> Any:
    beta = original(a, *args)
    return a.mul(beta, np.full((1, 1), 2, np.float32)) if args[-1] == 0 else beta


def _next_rows_of_v(
    original: Step, case: Case, a: Arithmetic, contract: Contract, x: Coded, y: Operand, **at: Any
) -> Any:
    moved = Operand(y.codes[np.arange(len(y.codes)) ^ 1], y.scale)
    return original(a, contract, x, moved, **at)


MUTATIONS = {
    "no-promotion": Mutation({"forward._online": unpromoted()}),
    "promotion-every-8th": Mutation({"forward._online": unpromoted(8)}),
    "promotion-without-scale": Mutation({"forward.combination": _without_beta}),
    "promotion-dropped-on-last": Mutation({"forward.combination": _without_last}),
    "no-promotion-dq": Mutation({"backward._query_gradient": unpromoted()}),
    "no-promotion-dk": Mutation({"interpret.token_gradient": unpromoted()}),
    "value-scale-dropped": Mutation({"forward.combination": _without_value_scale}),
    "tile-twice": Mutation({"forward._advance": _window_twice}),
    "v-rows-swapped": Mutation({"forward.combination": _next_rows_of_v}),
}
"""By the mutant's id."""
