"""Faults of the forward's P: its cast, and the maximum that it is relative to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dmverify.lab.mutants import cases as on
from dmverify.lab.mutants.altered import cast_toward_zero, multiply_then_add, with_operations
from dmverify.lab.mutants.fault import Fault, Plant, Step
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.products import Coded
from dmverify.spec.attention.softmax import OFFSET, Scores
from dmverify.spec.case import Case
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import E4M3, E5M2, FloatFormat
from dmverify.spec.namespace import Array


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


ROWS = (
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
)
"""Faults of this part."""
