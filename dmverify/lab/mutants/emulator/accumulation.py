"""What is added up: promotion to float32, weights of windows, rows of V."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.altered import as_accumulated, on_operations
from dmverify.lab.mutants.emulator.mutation import Call, Mutation, Step
from dmverify.lab.mutants.emulator.shared import last_window
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.operands import BlockScaled
from dmverify.spec.namespace import Array

LANES = 4  # sums of a row have up to this many columns, sums of V have head_dim


def unpromoted(every: int = 0) -> Step:
    """Sums held in the tensor core, and moved to float32 every so many windows, or never."""

    def step(call: Call) -> Any:
        added = 0

        def fma(base: Arithmetic, x: Array, y: Array, z: Array) -> Array:
            nonlocal added
            total = base.fma(x, y, z)
            if total.shape[-1] <= LANES:
                return total
            added += 1
            return total if every and added % every == 0 else as_accumulated(total)

        return on_operations(call, fma=fma)

    return step


def _without_beta(call: Call) -> Any:
    return call.result(weight=call["weight"].of(1.0))


def _without_value_scale(call: Call) -> Any:
    acc, _ = call.result()
    return acc, call["weight"]


def _without_last(call: Call) -> Any:
    acc, scale = call.result()
    return acc, scale * 0.0 if call["window"] == last_window(call.case) else scale


def _window_twice(call: Call) -> Any:
    moved, beta = call.result()
    return moved, beta * 2.0 if call["w"] == 0 else beta


def _next_rows_of_v(call: Call) -> Any:
    v = call["y"]
    return call.result(y=BlockScaled(v.codes[np.arange(len(v.codes)) ^ 1], v.scale))


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
