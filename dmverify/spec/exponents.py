"""Powers of two that are chosen from a number: which binade it is in, how far it can be scaled up.

    ceil_log2          the least n with a <= 2^n, clamped to [-100, 120]; 0 for 0, 120 for infinity
                       and NaN
    max_shift_to_448   the largest n <= limit with a 2^n <= 448; 0 for 0, -120 for infinity
    max_shift          the same up to another number than 448

Both are what integer arithmetic on the bits of a normal float32 gives (448 = 1.75 * 2^8), as the
bundled kernel computes them. They choose scales only: powers of two cancel exactly later on.
"""

from __future__ import annotations

import math

from dmverify.spec.namespace import Array, astype, namespace_of

LEAST_EXPONENT, LARGEST_EXPONENT = -100, 120  # tiles stay away from the ends of float32
LARGEST_FIT = 100
FIT_OF_INFINITY = -120


def ceil_log2(a: Array) -> Array:
    """The least integer n with ``a <= 2^n``, clamped; integers of the shape of ``a`` (>= 0)."""
    xp = namespace_of(a)
    mantissa, exponent = xp.frexp(a)
    n = xp.clip(exponent - astype(mantissa == 0.5, "int32"), LEAST_EXPONENT, LARGEST_EXPONENT)
    n = xp.where(a == 0, xp.zeros_like(n), n)
    return xp.where(xp.isfinite(a), n, xp.full_like(n, LARGEST_EXPONENT))


def max_shift_to_448(a: Array, *, limit: int = LARGEST_FIT) -> Array:
    """The largest integer n <= limit with ``a * 2^n <= 448``; integers of the shape of ``a``."""
    return max_shift(a, 448.0, limit=limit)


def max_shift(a: Array, most: float, *, limit: int = LARGEST_FIT) -> Array:
    """The largest integer n <= limit with ``a * 2^n <= most``; integers of the shape of ``a``."""
    xp = namespace_of(a)
    full, top = math.frexp(most)  # 448 = (7/8) 2^9
    mantissa, exponent = xp.frexp(a)  # a = mantissa 2^exponent
    n = xp.clip(top - exponent - astype(mantissa > full, "int32"), None, limit)
    n = xp.where(a == 0, xp.zeros_like(n), n)
    return xp.where(xp.isinf(a), xp.full_like(n, FIT_OF_INFINITY), n)
