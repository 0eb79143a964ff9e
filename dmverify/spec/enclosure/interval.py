"""Intervals of float64 that hold every float32 number a conforming kernel can have there.

| operation of the kernel | how its result is enclosed |
|---|---|
| one rounded operation | RN is monotone, so [RN(lo), RN(hi)] of the real result's [lo, hi] |
| sum of n terms, any order | (n - 1) u sum abs(x) around the exact sum |
| dot product of n terms, any order, fused or not | n u sum abs(a b), and n eta for underflow |

u = 2^-24, eta = 2^-149. Why it is rigorous: lo and hi are computed in float64 and moved outwards by
at least the float64 error (one nextafter for one operation, ``SLACK`` times the size for longer
expressions, ``length * 2^-52`` for float64 sums of non-negative numbers, which no order exceeds).
An end beyond ``LIMIT`` may be an overflow in the kernel, and a NaN may then follow: such an element
becomes [-inf, inf], which also allows NaN ("open"). Zero terms add exactly, so n counts the terms
that can be nonzero.

Source: Jeannerod and Rump, "Improved error bounds for inner products in floating-point
arithmetic" (2013), for sums and dots in any order and any n. Not covered: flush to zero (kernels
must keep subnormal float32), directed rounding, the tensor core's truncation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmverify.spec.case import F64

U = 2.0**-24
ETA = 2.0**-149
SLACK = 2.0**-44  # 512 float64 half ulps: more than any expression here loses
LIMIT = 2.0**127


@dataclass(frozen=True, eq=False)
class Interval:
    """Ends of the same shape, lo <= hi; equal ends where one number is certain."""

    lo: F64
    hi: F64

    @property
    def mid(self) -> F64:
        """A point inside: the middle, 0 where the interval is open."""
        return np.where(self.open, 0.0, self.lo / 2 + self.hi / 2)

    @property
    def rad(self) -> F64:
        """Largest distance from ``mid`` to an end, rounded up; infinite where open."""
        middle = self.mid
        reach = np.maximum(self.hi - middle, middle - self.lo)
        return np.where(self.lo == self.hi, 0.0, np.nextafter(reach, np.inf))

    @property
    def open(self) -> np.typing.NDArray[np.bool_]:
        """Where nothing is known, NaN included."""
        return np.isinf(self.lo) | np.isinf(self.hi)

    @property
    def mag(self) -> F64:
        """Largest absolute value."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    @property
    def mig(self) -> F64:
        """Smallest absolute value, 0 if the interval holds 0."""
        return np.maximum(np.maximum(self.lo, -self.hi), 0.0)

    @property
    def T(self) -> Interval:
        """The transpose."""
        return Interval(self.lo.T, self.hi.T)


def point(x: F64) -> Interval:
    """The interval of one number; open where that number is NaN or infinite."""
    return closed(x, x)


def closed(lo: F64, hi: F64) -> Interval:
    """[lo, hi] with everything suspicious opened: NaN ends, and ends that may be overflows."""
    safe = (np.abs(lo) < LIMIT) & (np.abs(hi) < LIMIT)  # False for NaN
    return Interval(np.where(safe, lo, -np.inf), np.where(safe, hi, np.inf))


def rounded(lo: F64, hi: F64) -> Interval:
    """The float32 results of one operation whose real result, within one float64 ulp, is given."""
    down = np.nextafter(lo, -np.inf).astype(np.float32).astype(np.float64)
    up = np.nextafter(hi, np.inf).astype(np.float32).astype(np.float64)
    return closed(down, up)


def around(mid: F64, rad: F64) -> Interval:
    """mid +- rad, moved outwards; exactly 0 where both are 0."""
    reach = rad + SLACK * (np.abs(mid) + rad)
    zero = (mid == 0) & (rad == 0)
    lo, hi = np.nextafter(mid - reach, -np.inf), np.nextafter(mid + reach, np.inf)
    return closed(np.where(zero, 0.0, lo), np.where(zero, 0.0, hi))


def subtract(a: Interval, b: Interval) -> Interval:
    """RN(a - b)."""
    return rounded(a.lo - b.hi, a.hi - b.lo)


def multiply(a: Interval, b: Interval) -> Interval:
    """RN(a * b)."""
    corners = (a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi)
    return rounded(_least(*corners), _greatest(*corners))


def divide(a: Interval, b: Interval) -> Interval:
    """RN(a / b); open where b may be 0 or negative."""
    corners = (a.lo / b.lo, a.lo / b.hi, a.hi / b.lo, a.hi / b.hi)
    quotient = rounded(_least(*corners), _greatest(*corners))
    bad = ~(b.lo > 0)
    return Interval(np.where(bad, -np.inf, quotient.lo), np.where(bad, np.inf, quotient.hi))


def dot(a: Interval, b: Interval, terms: F64 | int) -> Interval:
    """Products a b summed in float32 in any order, fused or not.

    Args:
        a: (M, K).
        b: (K, N).
        terms: How many products can be nonzero, per row (M, 1) or for all.
    """
    length = a.lo.shape[-1]
    middle = a.mid @ b.mid
    size_a, size_b = np.abs(a.mid), np.abs(b.mid)
    rad_a, rad_b = a.rad, b.rad
    sizes = (size_a + rad_a) @ (size_b + rad_b)
    spread = np.zeros_like(sizes)
    if rad_a.any():
        spread = spread + rad_a @ (size_b + rad_b)
    if rad_b.any():
        spread = spread + size_a @ rad_b
    float64_error = (length + 4) * 2.0**-52
    gamma = terms * U / (1 - terms * U)  # also covers a few more roundings after the sum
    rad = spread * (1 + float64_error) + sizes * (gamma + 2 * float64_error)
    rad = rad + np.where(sizes > 0, terms * ETA, 0.0)
    rad = np.where(sizes < LIMIT, rad, np.inf)  # a partial sum may overflow
    return around(middle, rad)


def total(x: Interval, terms: F64 | int) -> Interval:
    """Numbers summed along the last axis in float32 in any order: (M, N) to (M, 1)."""
    length = x.lo.shape[-1]
    sizes = x.mag.sum(-1, keepdims=True)
    extra = sizes * (np.maximum(terms - 1, 0) * U / (1 - terms * U) + (length + 4) * 2.0**-52)
    extra = np.where(sizes < LIMIT, extra, np.inf)
    lo = x.lo.sum(-1, keepdims=True) - extra
    hi = x.hi.sum(-1, keepdims=True) + extra
    return closed(np.nextafter(lo, -np.inf), np.nextafter(hi, np.inf))


def _least(*corners: F64) -> F64:
    return np.asarray(np.minimum.reduce(corners))


def _greatest(*corners: F64) -> F64:
    return np.asarray(np.maximum.reduce(corners))
