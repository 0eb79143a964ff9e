"""Operands: which dequantised numbers a conforming kernel can have.

| operand | what is known |
|---|---|
| q, v, do | one number each: amax, one division, one cast, one product are all rounded once |
| k | the same after k - mean; the float32 mean is a sum in any order, so it is an interval |

The interval of the mean. Inputs are BF16, so most float32 additions are exact: an addition whose
result lies in binade e rounds only if one of its terms is no multiple of 2^(e-23), and then its
result is one. So an input that is no multiple of 2^(e-23) causes at most one rounding in binade e,
whatever the order, and each costs at most 2^(e-24). No partial sum exceeds N = max(sum of positive,
sum of negative inputs) plus the errors, which bounds e. Summing over the binades gives the error,
about 1000 times below (n - 1) u sum abs(k) on random keys. The mean is sum / n or sum * (1 / n),
rounded, or the exact mean rounded once.

Not covered: contracts that centre in another way.
"""

from __future__ import annotations

import numpy as np

from dmverify.spec.case import F32, F64
from dmverify.spec.enclosure.casts import cast_interval
from dmverify.spec.enclosure.interval import Interval, closed, point, rounded

_BINADES = 40  # below e_max - 40, n 2^(e-23) bounds what is left


def cast_operand(x: F32, rows: int | None) -> Interval:
    """An operand cast in blocks of rows: (N, D)."""
    wide = point(x.astype(np.float64))
    return cast_interval(wide, rows or max(len(x), 1), max(x.shape[-1], 1))


def cast_centred(k: F32, rows: int | None) -> Interval:
    """Keys without their mean, cast in blocks of rows: (N, D)."""
    if len(k) == 0:
        return point(k.astype(np.float64))
    lo, hi = mean_interval(k)
    centred = closed((k - hi).astype(np.float64), (k - lo).astype(np.float64))
    return cast_interval(centred, rows or len(k), max(k.shape[-1], 1))


def mean_interval(k: F32) -> tuple[F32, F32]:
    """Ends of the float32 mean over the rows of BF16 numbers k, in any order: (D,) each."""
    n = np.float32(len(k))
    wide = k.astype(np.float64)
    exact = wide.sum(0)
    slack = np.where(_sums_exactly(wide), 0.0, len(k) * 2.0**-52 * np.abs(wide).sum(0))
    rad = sum_error(wide) + slack
    ends = [(exact - rad).astype(np.float32), (exact + rad).astype(np.float32)]
    means = [end / n for end in ends] + [end * (np.float32(1) / n) for end in ends]
    once = rounded((exact - slack) / len(k), (exact + slack) / len(k))
    means += [once.lo.astype(np.float32), once.hi.astype(np.float32)]
    return np.minimum.reduce(means), np.maximum.reduce(means)


def sum_error(wide: F64) -> F64:
    """Largest error of a float32 sum of BF16 numbers over the rows, any order: (D,)."""
    n = len(wide)
    positive = np.maximum(wide, 0).sum(0)
    negative = np.maximum(-wide, 0).sum(0)
    largest = np.maximum(positive, negative) * (1 + n * 2.0**-23)
    top = np.frexp(largest)[1] - 1  # binade of the largest partial sum
    grain = _lowest_bit(wide)
    error = np.zeros_like(positive)
    for step in range(_BINADES):
        quantum = np.ldexp(1.0, top - step - 23)
        error += (grain < quantum).sum(0) * quantum / 2
    tail = n * np.ldexp(1.0, top - _BINADES - 22)
    return np.asarray(error) + np.where(
        (grain < np.ldexp(1.0, top - _BINADES - 23)).any(0), tail, 0.0
    )


def _lowest_bit(x: F64) -> F64:
    """The largest power of two that divides a BF16 number, infinite for 0."""
    mantissa, exponent = np.frexp(x)
    digits = np.abs(np.ldexp(mantissa, 8)).astype(np.int64)  # 8 significant bits
    lowest = digits & -digits
    return np.where(digits == 0, np.inf, np.ldexp(lowest.astype(np.float64), exponent - 8))


def _sums_exactly(wide: F64) -> np.typing.NDArray[np.bool_]:
    """Whether every partial sum fits float64: all are multiples of one grain, 2^53 of them."""
    return np.asarray(np.abs(wide).sum(0) < _lowest_bit(wide).min(0) * 2.0**52)
