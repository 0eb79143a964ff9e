"""Faults of what is added up: promotion to float32, weights of windows, rows of V."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmverify.lab.mutants import cases as on
from dmverify.lab.mutants.altered import altered, as_accumulated
from dmverify.lab.mutants.fault import Fault, Plant, Step
from dmverify.lab.mutants.plants import last_window
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


ROWS = (
    Fault(
        "no-promotion",
        "accumulation",
        "O stays in the tensor core's 14 bits over all windows",
        "o",
        Plant({"forward._online": unpromoted()}),
        (on.FLAT_OFFSET,),
    ),
    Fault(
        "promotion-every-8th",
        "accumulation",
        "O is moved to float32 after every eighth window only",
        "o",
        Plant({"forward._online": unpromoted(8)}),
        (on.FLAT_OFFSET,),
    ),
    Fault(
        "promotion-without-scale",
        "accumulation",
        "a window is added to O without its weight 2^(b - R)",
        "o",
        Plant({"forward.combination": _without_beta}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "promotion-dropped-on-last",
        "accumulation",
        "the last window never reaches O",
        "o",
        Plant({"forward.combination": _without_last}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "no-promotion-dq",
        "accumulation",
        "dQ stays in the tensor core's 14 bits over all windows",
        "dq",
        Plant({"backward._query_gradient": unpromoted()}),
        (on.POSITIVE,),
        hidden=BOTH_SIGNS,
    ),
    Fault(
        "no-promotion-dk",
        "accumulation",
        "dK and dV stay in the tensor core's 14 bits over all windows and heads",
        "dk",
        Plant({"interpret.token_gradient": unpromoted()}),
        (on.GROUPED, on.GAUSSIAN),
        hidden=BOTH_SIGNS,
    ),
    Fault(
        "value-scale-dropped",
        "scale",
        "O is formed from V's codes without V's scale",
        "o",
        Plant({"forward.combination": _without_value_scale}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "tile-twice",
        "geometry",
        "the first window is counted twice",
        "lse",
        Plant({"forward._advance": _window_twice}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "v-rows-swapped",
        "transposes",
        "neighbouring rows of V are exchanged in PV",
        "o",
        Plant({"forward.combination": _next_rows_of_v}),
        (on.GAUSSIAN,),
    ),
)
"""Faults of this part."""
