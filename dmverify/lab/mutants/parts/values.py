"""Faults of special values, of the store, and of the instructions."""

from __future__ import annotations

from typing import cast

import numpy as np

from dmverify.lab.mutants import cases as on
from dmverify.lab.mutants.altered import altered, with_operations
from dmverify.lab.mutants.fault import Fault, Plant, Step
from dmverify.lab.mutants.plants import INPUTS, TENSORS, reading, storing
from dmverify.spec.arithmetic.bits import Bits
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.case import F32, F64, Case
from dmverify.spec.formats import FloatFormat
from dmverify.spec.namespace import Array

BF16_MAX = np.float32(3.3895313892515355e38)
SMALLEST_NORMAL = np.float32(2.0**-126)


def _last_row_zero(x: F32) -> F32:
    return np.concatenate([x[:, :-1], np.zeros_like(x[:, -1:])], axis=1)


def _flushed(x: F32) -> F32:
    return np.where(np.abs(x) < SMALLEST_NORMAL, np.copysign(np.float32(0), x), x)


def _wide(original: Step, case: Case, a: Arithmetic, name: str, x: F64) -> Array:
    return x.astype(np.float32) if name == "o" else original(a, name, x)


def _toward_zero(original: Step, case: Case, a: Arithmetic, name: str, x: F64) -> Array:
    stored = original(a, name, x)
    if name not in TENSORS:
        return stored
    bits = np.ascontiguousarray(x.astype(np.float32)).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


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


def _lanes_in_another_order(original: Step, case: Case, a: Arithmetic, lanes: Array) -> Array:
    order = [0, 2, 1, 3] if lanes.shape[1] == 4 else range(lanes.shape[1])
    return original(a, lanes[:, list(order)])


_RECIPROCAL = with_operations(div=_next_up)


ROWS = (
    Fault(
        "last-row-lost",
        "geometry",
        "the last row of O is not written",
        "o",
        storing(_last_row_zero, "o"),
        (on.GAUSSIAN,),
    ),
    Fault(
        "nan-swallowed",
        "special values",
        "NaN is read as 0",
        "nan",
        reading(lambda x: np.where(np.isnan(x), np.float32(0), x), *INPUTS),
        (on.NAN_V,),
    ),
    Fault(
        "infinity-finite",
        "special values",
        "infinity is read as the largest number",
        "nan",
        reading(lambda x: np.clip(x, -BF16_MAX, BF16_MAX), *INPUTS),
        (on.INF_V,),
    ),
    Fault(
        "negative-zero-lost",
        "special values",
        "-0 is stored as +0",
        "bits",
        storing(lambda x: x + np.float32(0), *TENSORS),
        (on.NEGATIVE_ZEROS,),
        hidden="-0 and +0 are equal numbers",
    ),
    Fault(
        "denormals-flushed",
        "special values",
        "outputs below 2^-126 are stored as 0",
        "dq",
        storing(_flushed, *TENSORS),
        (on.TINY_DO,),
    ),
    Fault(
        "wide-output",
        "special values",
        "O is stored in float32",
        "format",
        Plant({"interpret.stored": _wide}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "store-toward-zero",
        "special values",
        "outputs are rounded to BF16 toward zero",
        "o",
        Plant({"interpret.stored": _toward_zero}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "wide-accumulator",
        "instruction",
        "dot products are summed in float32, as by mma.sync on converted operands",
        "bits",
        Plant(arithmetic=lambda bits: altered(bits, dot=_exact_dot)),
        (on.GAUSSIAN, on.POSITIVE),
    ),
    Fault(
        "bf16-path",
        "instruction",
        "nothing is cast to FP8: a BF16 kernel behind an FP8 name",
        "o",
        Plant(arithmetic=_bf16_path),
        (on.GAUSSIAN,),
    ),
    Fault(
        "exp2-rounded",
        "instruction",
        "2^x is correctly rounded instead of ex2.approx",
        "bits",
        Plant(arithmetic=lambda bits: altered(bits, exp2=_rounded_exp2)),
        (on.GAUSSIAN,),
        hidden="the bound takes any exp2 within ex2.approx's measured error, and this is better",
    ),
    Fault(
        "reciprocal-one-ulp",
        "instruction",
        "1 / l is one ulp too large, as rcp.approx may be",
        "bits",
        Plant(dict.fromkeys(("forward.reciprocal", "backward.reciprocal"), _RECIPROCAL)),
        (on.GAUSSIAN,),
        hidden="2^-23 of O, of which BF16 keeps 2^-8; l is only known up to its order of summation",
    ),
    Fault(
        "row-sum-order",
        "instruction",
        "the four lanes of a row sum are combined in another order",
        "bits",
        Plant({"forward.combine": _lanes_in_another_order}),
        (on.GAUSSIAN,),
        hidden="the bound is over every order of summation",
    ),
)
"""Faults of this part."""
