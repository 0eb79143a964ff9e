"""Mutants of special values, of the store, and of the instructions."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from dmverify.lab.mutants.emulator.altered import altered, with_operations
from dmverify.lab.mutants.emulator.mutation import Call, Mutation
from dmverify.lab.mutants.emulator.shared import INPUTS, TENSORS, reading, storing
from dmverify.spec.arithmetic.bits import Bits
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.case import F32
from dmverify.spec.formats import FloatFormat
from dmverify.spec.namespace import Array

BF16_MAX = np.float32(3.3895313892515355e38)
SMALLEST_NORMAL = np.float32(2.0**-126)


def _last_row_zero(x: F32) -> F32:
    return np.concatenate([x[:, :-1], np.zeros_like(x[:, -1:])], axis=1)


def _flushed(x: F32) -> F32:
    return np.where(np.abs(x) < SMALLEST_NORMAL, np.copysign(np.float32(0), x), x)


def _wide(call: Call) -> Any:
    return call["x"].astype(np.float32) if call["name"] == "o" else call.result()


def _toward_zero(call: Call) -> Any:
    if call["name"] not in TENSORS:
        return call.result()
    x = np.ascontiguousarray(call["x"].astype(np.float32))
    return (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def _exact_dot(base: Arithmetic, x: Array, y: Array, *, over: str) -> Array:
    """Sums of float32, as an instruction with a wider accumulator gives them."""
    return (x.astype(np.float64) @ y.astype(np.float64).T).astype(np.float32)


def _bf16_path(bits: Bits) -> Arithmetic:
    """Nothing is cast to FP8: operands, P and dS keep their digits."""
    bits.casts = frozenset({"o"})

    def keep(base: Arithmetic, x: Array, fmt: FloatFormat, *, site: str, saturate: bool) -> Array:
        return base.cast(x, fmt, site=site, saturate=saturate) if site == "o" else x

    return altered(bits, dot=_exact_dot, cast=keep)


def _rounded_exp2(base: Arithmetic, x: Array) -> Array:
    return cast(Array, np.exp2(x.astype(np.float64)).astype(np.float32))


def _next_up(base: Arithmetic, x: Array, y: Array) -> Array:
    return np.nextafter(base.div(x, y), np.float32(np.inf))


def _lanes_in_another_order(call: Call) -> Any:
    lanes = call["lanes"]
    order = [0, 2, 1, 3] if lanes.shape[1] == 4 else range(lanes.shape[1])
    return call.result(lanes=lanes[:, list(order)])


_RECIPROCAL = with_operations(div=_next_up)


MUTATIONS = {
    "last-row-lost": storing(_last_row_zero, "o"),
    "nan-swallowed": reading(lambda x: np.where(np.isnan(x), np.float32(0), x), *INPUTS),
    "infinity-finite": reading(lambda x: np.clip(x, -BF16_MAX, BF16_MAX), *INPUTS),
    "negative-zero-lost": storing(lambda x: x + np.float32(0), *TENSORS),
    "denormals-flushed": storing(_flushed, *TENSORS),
    "wide-output": Mutation({"run.stored": _wide}),
    "store-toward-zero": Mutation({"run.stored": _toward_zero}),
    "wide-accumulator": Mutation(arithmetic=lambda bits: altered(bits, dot=_exact_dot)),
    "bf16-path": Mutation(arithmetic=_bf16_path),
    "exp2-rounded": Mutation(arithmetic=lambda bits: altered(bits, exp2=_rounded_exp2)),
    "reciprocal-one-ulp": Mutation({"windows.reciprocal": _RECIPROCAL}),
    "row-sum-order": Mutation({"windows.combine": _lanes_in_another_order}),
}
"""By the mutant's id."""
