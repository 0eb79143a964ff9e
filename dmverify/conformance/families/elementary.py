"""ln, cos and 2^x from float64 additions, multiplications and divisions only.

A library's functions differ in their last bits between platforms and versions; these are sequences
of IEEE operations, each rounded by itself, so a case regenerates bit for bit everywhere. They are
accurate to a few units of 2^-52 on the ranges stated, far below the BF16 that numbers end up in.

    ln(m 2^e)   = e ln 2 + 2 (z + z^3/3 + z^5/5 + ...),  z = (m - 1) / (m + 1), m in [0.7, 1.41)
    cos(2 pi t) = Taylor series after t is folded into [0, 1/8] (sin on the odd octants)
    2^x         = 2^n times the Taylor series of exp((x - n) ln 2), n = floor(x + 1/2)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

LN2 = float.fromhex("0x1.62e42fefa39efp-1")
TWO_PI = float.fromhex("0x1.921fb54442d18p+2")
_ATANH = [1.0 / (2 * n + 1) for n in range(12)]
_COS = [(-1.0) ** n / math.factorial(2 * n) for n in range(9)]
_SIN = [(-1.0) ** n / math.factorial(2 * n + 1) for n in range(9)]
_EXP = [1.0 / math.factorial(n) for n in range(16)]


def ln(x: F64) -> F64:
    """Natural logarithm of positive normal numbers."""
    mantissa, exponent = np.frexp(x)  # exact: x = mantissa 2^exponent, mantissa in [1/2, 1)
    low = mantissa < 0.70703125
    mantissa = np.where(low, mantissa * 2.0, mantissa)
    z = (mantissa - 1.0) / (mantissa + 1.0)
    return (exponent - low) * LN2 + 2.0 * z * _horner(z * z, _ATANH)


def cos_turns(t: F64) -> F64:
    """cos(2 pi t) for t in [0, 1)."""
    half = np.minimum(t, 1.0 - t)  # [0, 1/2]: the cosine is even and has period 1
    negative = half > 0.25
    quarter = np.where(negative, 0.5 - half, half)  # [0, 1/4]
    swapped = quarter > 0.125
    angle = TWO_PI * np.where(swapped, 0.25 - quarter, quarter)
    square = angle * angle
    value = np.where(swapped, angle * _horner(square, _SIN), _horner(square, _COS))
    return np.where(negative, -value, value)


def exp2(x: F64) -> F64:
    """2^x for |x| < 1000."""
    whole = np.floor(x + 0.5)
    return np.ldexp(_horner((x - whole) * LN2, _EXP), whole.astype(np.int32))


def _horner(x: F64, coefficients: Sequence[float]) -> F64:
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total *= x
        total += coefficient
    return total
