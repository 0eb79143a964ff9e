"""NaN and infinities of the FP8 tensor core: what IEEE 754 says of the exact sum.

1. A NaN operand or accumulator, zero times infinity, or infinities of both signs among the products
   and the accumulator give the NaN 0x7FFFFFFF (f16: 0x7FFF).
2. Otherwise an infinite product or accumulator gives that infinity.
3. Neither leaves a chain of steps, so they may be settled once for the whole of K (with f32, where
   finite steps cannot overflow).

Source: measured on an H200, the families ``special-codes`` and ``accumulator-bits``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dmverify.spec.namespace import Array, astype, bitcast, namespace_of

CANONICAL_NAN = {"float32": ("int32", 0x7FFFFFFF), "float16": ("int16", 0x7FFF)}


def split_specials(x: Array) -> tuple[Array, bool]:
    """`x` with NaN and infinities replaced by zero, and whether there were any."""
    xp = namespace_of(x)
    finite = xp.isfinite(x)
    if bool(finite.all()):
        return x, False
    return xp.where(finite, x, xp.zeros_like(x)), True


def overlay_specials(d: Array, a: Array, b: Array, *, c: Array) -> Array:
    """Writes NaN and infinities over the finite result `d`.

    Args:
        d: Result with specials taken as zero, (..., M, N).
        a: Decoded operands with specials, (..., M, K).
        b: Decoded operands with specials, (..., N, K).
        c: Accumulator with specials, (..., M, N).
    """
    xp = namespace_of(d)
    with np.errstate(invalid="ignore"):
        total = _ieee_sum(xp, a, b) + astype(c, "float64")
    name = "float16" if d.dtype == xp.float16 else "float32"
    integer, nan_bits = CANONICAL_NAN[name]
    nan = bitcast(xp.full_like(d, nan_bits, dtype=getattr(xp, integer)), name)
    total = xp.where(xp.isfinite(total), d, astype(total, name))
    return xp.where(xp.isnan(total), nan, total)


def _ieee_sum(xp: Any, a: Array, b: Array) -> Array:
    """Sum of products that is NaN or infinite where IEEE 754 says so; finite values mean nothing.

    Counts, rather than a matrix product of the values, because BLAS may skip zeros.
    """
    plus = _count(a == xp.inf, b > 0) + _count(a == -xp.inf, b < 0)
    plus += _count(a > 0, b == xp.inf) + _count(a < 0, b == -xp.inf)
    minus = _count(a == xp.inf, b < 0) + _count(a == -xp.inf, b > 0)
    minus += _count(a > 0, b == -xp.inf) + _count(a < 0, b == xp.inf)
    invalid = _count(xp.isinf(a), b == 0) + _count(a == 0, xp.isinf(b))
    nan = xp.isnan(a).any(-1)[..., :, None] | xp.isnan(b).any(-1)[..., None, :] | (invalid > 0)
    infinity = xp.where(plus > 0, xp.inf, 0.0) - xp.where(minus > 0, xp.inf, 0.0)
    return xp.where(nan, xp.nan, infinity)


def _count(a: Array, b: Array) -> Array:
    """Number of k at which both conditions hold, (..., M, N)."""
    return astype(a, "float32") @ astype(b, "float32").swapaxes(-1, -2)
