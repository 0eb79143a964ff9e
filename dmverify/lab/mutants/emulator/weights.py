"""The forward's P: its cast, and the maximum that it is relative to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.altered import (
    cast_toward_zero,
    multiply_then_add,
    with_operations,
)
from dmverify.lab.mutants.emulator.mutation import Call, Mutation
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.num import Num, maximum, where
from dmverify.spec.attention.windows import P_MAX_EXPONENT
from dmverify.spec.formats import E4M3, E5M2, FloatFormat
from dmverify.spec.namespace import Array


def _cast_e5m2(base: Arithmetic, x: Array, fmt: FloatFormat, *, site: str, saturate: bool) -> Array:
    return E4M3.round(E5M2.round(x, saturate=True), saturate=True)


def _normalised(call: Call) -> Any:
    e = call["e"]
    total = e.array.sum(2, keepdims=True)
    return call.result(e=e / Num(np.where(total == 0, np.float32(1), total), e.a))


def _of_two_windows(call: Call) -> Num:
    live, b = call["s"].live, call.result()
    rows, windows, _ = b.shape
    seen = np.where(live, b.array, np.float32(-np.inf)).reshape(rows, windows // 2, 2)
    both = np.repeat(seen.max(2), 2, axis=1)[:, :, None]
    return where(live, Num(both, b.a), b)


def _of_first_window(call: Call) -> Num:
    live, b = call["s"].live, call.result()
    return where(live & live[:, :1], b[:, :1], b)


def _floored(call: Call) -> Num:
    b = call.result()
    return where(call["s"].live, maximum(b, -P_MAX_EXPONENT), b)


def _over_masked(call: Call) -> Any:
    s = call["s"]
    return call.result(s=replace(s, seen=np.broadcast_to(s.live, s.seen.shape)))


def _without_offset(base: Arithmetic, x: Array, y: Array, z: Array) -> Array:
    """The maximum's product, without what the fma adds to it."""
    return base.fma(x, y, np.zeros_like(z))


MUTATIONS = {
    "p-offset-missing": Mutation({"windows.references": with_operations(fma=_without_offset)}),
    "p-stale-maximum": Mutation({"windows.references": _of_first_window}),
    "p-toward-zero": Mutation({"windows.encode": with_operations(cast=cast_toward_zero)}),
    "p-e5m2": Mutation({"windows.encode": with_operations(cast=_cast_e5m2)}),
    "p-normalised-first": Mutation({"windows.encode": _normalised}),
    "p-basis-of-128-keys": Mutation({"windows.references": _of_two_windows}),
    "maximum-floored": Mutation({"windows.references": _floored}),
    "maximum-rounded-twice": Mutation(
        {"windows.references": with_operations(fma=multiply_then_add)}
    ),
    "maximum-over-masked": Mutation({"windows.references": _over_masked}),
}
"""By the mutant's id."""
