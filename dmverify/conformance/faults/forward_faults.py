"""Faults of the forward pass: accumulation, P codes, normaliser, rescaling, row maximum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.conformance.faults import cases as on
from dmverify.conformance.faults.altered import (
    altered,
    as_accumulated,
    cast_toward_zero,
    multiply_then_add,
    with_operations,
)
from dmverify.conformance.faults.fault import Fault, Plant, Step
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.operands import Operand
from dmverify.spec.attention.products import Coded, one
from dmverify.spec.attention.softmax import OFFSET, Scores
from dmverify.spec.case import Case
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import E4M3, E5M2, FloatFormat
from dmverify.spec.namespace import Array

LANES = 4  # sums of a row have up to this many columns, sums of V have head_dim


def unpromoted(every: int = 0) -> Step:
    """Sums of rows held in the tensor core, and moved to float32 every so many windows, or never."""

    def step(original: Step, case: Case, a: Arithmetic, *args: Any) -> Any:
        added = 0

        def fma(base: Arithmetic, x: Array, y: Array, z: Array) -> Array:
            nonlocal added
            total = base.fma(x, y, z)
            if total.shape[-1] <= LANES:
                return total
            added += 1
            return total if every and added % every == 0 else as_accumulated(total)

        return original(altered(a, fma=fma), *args)

    return step


def last_window(case: Case) -> int:
    """The last window of keys that is not padding."""
    return (case.problem.keys - 1) // 64


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


def _last_is_zero(original: Step, case: Case, *args: Any) -> Array:
    sums = original(*args).copy()
    sums[:, last_window(case)] = 0
    return sums


def _cast_e5m2(base: Arithmetic, x: Array, fmt: FloatFormat, *, site: str, saturate: bool) -> Array:
    return E4M3.round(E5M2.round(x, saturate=True), saturate=True)


def _normalised(original: Step, case: Case, a: Arithmetic, contract: Contract, e: Array) -> Coded:
    total = e.sum(2, keepdims=True)
    coded: Coded = original(a, contract, a.div(e, np.where(total == 0, np.float32(1), total)))
    return coded


def _of_two_windows(
    original: Step, case: Case, a: Arithmetic, contract: Contract, s: Scores
) -> Array:
    b = original(a, contract, s)
    rows, windows, _ = b.shape
    seen = np.where(s.live, b, np.float32(-np.inf)).reshape(rows, windows // 2, 2)
    both = np.repeat(seen.max(2), 2, axis=1)[:, :, None]
    return np.where(s.live, both, b)


def _of_first_window(
    original: Step, case: Case, a: Arithmetic, contract: Contract, s: Scores
) -> Array:
    b = original(a, contract, s)
    return np.where(s.live & s.live[:, :1], b[:, :1], b)


def _floored(original: Step, case: Case, a: Arithmetic, contract: Contract, s: Scores) -> Array:
    b = original(a, contract, s)
    return np.where(s.live, np.maximum(b, np.float32(-OFFSET)), b)


def _over_masked(original: Step, case: Case, a: Arithmetic, contract: Contract, s: Scores) -> Array:
    return original(a, contract, replace(s, seen=np.broadcast_to(s.live, s.seen.shape)))


def _keeps(name: str) -> Step:
    """The rescale of one running sum is forgotten."""

    def step(original: Step, case: Case, a: Arithmetic, *args: Any) -> Any:
        run = args[3]
        before = getattr(run, name)
        beta = original(a, *args)
        setattr(run, name, before)
        return beta

    return step


def _rescaled_twice(
    original: Step, case: Case, a: Arithmetic, contract: Contract, s: Scores, *args: Any
) -> Any:
    _, run, w = args
    before = run.r
    beta = original(a, contract, s, *args)
    known = s.live[:, :w].any(axis=1)
    again = np.where(known, a.exp2(a.sub(before, run.r)), np.float32(1))
    run.o = a.mul(run.o, again)
    return beta


def _first_reference_stale(
    original: Step, case: Case, a: Arithmetic, contract: Contract, *args: Any
) -> Any:
    stale = altered(a, ceil=lambda base, x: np.zeros_like(x))
    return original(stale if args[-1] == 0 else a, contract, *args)


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
        (on.POSITIVE,),
    ),
    Fault(
        "promotion-every-8th",
        "accumulation",
        "O is moved to float32 after every eighth window only",
        "o",
        Plant({"forward._online": unpromoted(8)}),
        (on.POSITIVE_LONG,),
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
    ),
    Fault(
        "no-promotion-dk",
        "accumulation",
        "dK and dV stay in the tensor core's 14 bits over all windows and heads",
        "dk",
        Plant({"interpret.token_gradient": unpromoted()}),
        (on.GROUPED, on.GAUSSIAN),
    ),
    Fault(
        "p-offset-missing",
        "P",
        "P is cast with its maximum at 1 instead of 2^8",
        "o",
        Plant(constants={"softmax.OFFSET": 0.0}),
        (on.GAP,),
    ),
    Fault(
        "p-stale-maximum",
        "P",
        "the first window's maximum serves all, so that P passes 448 and saturates",
        "o",
        Plant({"forward.references": _of_first_window}),
        (on.RISING_SLOWLY, on.RISING),
    ),
    Fault(
        "p-toward-zero",
        "P",
        "P is rounded toward zero",
        "o",
        Plant({"forward.encode": with_operations(cast=cast_toward_zero)}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "p-e5m2",
        "P",
        "P is rounded to E5M2",
        "o",
        Plant({"forward.encode": with_operations(cast=_cast_e5m2)}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "p-normalised-first",
        "P",
        "P is divided by the row sum before it is cast",
        "o",
        Plant({"forward.encode": _normalised}),
        (on.ONE_WINDOW,),
    ),
    Fault(
        "p-basis-of-128-keys",
        "P",
        "two windows share a maximum: rounding depends on the tile's width",
        "o",
        Plant({"forward.references": _of_two_windows}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "normaliser-last-tile",
        "normaliser",
        "the sum of the codes lacks the last window",
        "o",
        Plant({"forward._code_sums": _last_is_zero}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "row-sum-last-tile",
        "normaliser",
        "the row sum lacks the last window",
        "lse",
        Plant({"forward.row_sum": _last_is_zero}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "normaliser-unrounded",
        "normaliser",
        "O is divided by the sum of the unrounded P",
        "o",
        Plant(contract={"normaliser": "unrounded"}),
        (on.CONSTANT_V,),
    ),
    Fault(
        "rescale-skipped",
        "normaliser",
        "O keeps its old reference",
        "o",
        Plant({"forward._advance": _keeps("o")}),
        (on.ZIGZAG,),
    ),
    Fault(
        "rescale-twice",
        "normaliser",
        "O is moved to a new reference twice",
        "o",
        Plant({"forward._advance": _rescaled_twice}),
        (on.ZIGZAG,),
    ),
    Fault(
        "row-sum-rescale-skipped",
        "normaliser",
        "the row sum keeps its old reference",
        "lse",
        Plant({"forward._advance": _keeps("l")}),
        (on.ZIGZAG,),
    ),
    Fault(
        "first-reference-stale",
        "normaliser",
        "the first window does not set the reference",
        "o",
        Plant({"forward._advance": _first_reference_stale}),
        (on.LARGE_LOGITS,),
    ),
    Fault(
        "maximum-floored",
        "row maximum",
        "the maximum starts at 0 instead of minus infinity",
        "o",
        Plant({"forward.references": _floored}),
        (on.WIDE, on.LARGE_LOGITS),
    ),
    Fault(
        "maximum-rounded-twice",
        "row maximum",
        "the maximum is multiplied and then shifted, not in one fma",
        "bits",
        Plant({"forward.references": with_operations(fma=multiply_then_add)}),
        (on.WIDE,),
        hidden="one ulp of the reference scales P, l and O alike, below every rounding allowed",
    ),
    Fault(
        "maximum-over-masked",
        "row maximum",
        "masked keys take part in the maximum",
        "o",
        Plant({"forward.references": _over_masked}),
        (on.WIDE, on.RISING),
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
"""Faults of the forward pass."""
