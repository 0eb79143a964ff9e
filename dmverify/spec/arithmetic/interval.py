"""Arrays of closed intervals: the numbers of the ``Enclosure`` interpretation.

An interval holds every float32 number that a conforming kernel can have at that place, and its
ends are float32 numbers (kept in float64). So a rounded operation needs no error term: rounding to
nearest is monotone, hence the results lie between the rounded results of the ends, and those are
exact here, because float64 rounds sums, products, quotients and square roots of float32 numbers so
that a second rounding to float32 changes nothing (53 >= 2 * 24 + 2 bits; Figueroa 1995).

*Open* elements, [-inf, inf], may hold anything, NaN included: overflow, division by zero and NaN
open whatever they touch. [-inf, -inf] is the lowest number, which masked logits take.

Only the mechanics are here; what each operation does to the ends is in ``enclosure.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dmverify.spec.case import F64
from dmverify.spec.constants import constant

Flags = npt.NDArray[np.bool_]

FP32_BITS = int(constant("FP32_BITS"))
SMALLEST = 2 * float(constant("UNDERFLOW_ERROR"))  # the smallest float32 above 0


@dataclass(frozen=True, eq=False)
class Interval:
    """An array of intervals.

    Attributes:
        lo: Lower ends, float64, any shape.
        hi: Upper ends, the same shape; the same array where every interval is one number.
        near: For codes, what code x scale is known to lie in, whatever the scale; same shape.
        grain: Where an interval holds 0, what no nonzero number of it is below; same shape.
        tall: For code x scale, what the least normal code is worth at most: a smaller code keeps
            its exponent on a tensor core. None where nobody said.
    """

    lo: F64
    hi: F64
    near: Interval | None = field(default=None)
    grain: F64 | None = field(default=None)
    tall: float | None = field(default=None)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.lo.shape

    @property
    def known(self) -> bool:
        """Whether every interval is one number."""
        return self.lo is self.hi or bool((self.lo == self.hi).all())

    @property
    def open(self) -> Flags:
        """Where nothing is known."""
        return np.asarray(self.hi == np.inf)

    @property
    def mid(self) -> F64:
        """Midpoints, rounded; NaN where open."""
        return np.asarray(self.lo / 2 + self.hi / 2)

    @property
    def radius(self) -> F64:
        """At least the distance from ``mid`` to either end."""
        if self.lo is self.hi:
            return np.where(self.lo == self.hi, 0.0, np.nan)
        mid = self.mid
        radius = np.asarray(self.hi - mid)
        np.subtract(mid, self.lo, out=mid)
        np.maximum(radius, mid, out=radius)
        del mid  # arrays of a long row's size, which are many where this is asked
        radius = next_above(radius)
        radius[self.lo == self.hi] = 0.0
        return radius

    @property
    def magnitude(self) -> F64:
        """The largest absolute value in each interval."""
        if self.lo is self.hi:
            return np.abs(self.lo)
        size = np.asarray(np.abs(self.lo))
        np.maximum(size, np.abs(self.hi), out=size)
        return size

    @property
    def mignitude(self) -> F64:
        """The smallest absolute value in each interval."""
        return np.maximum(np.maximum(self.lo, -self.hi), 0.0)

    @property
    def least(self) -> F64:
        """What no nonzero number of the interval is below; infinite for [0, 0]."""
        grain = SMALLEST if self.grain is None else self.grain
        above_zero = np.where(self.magnitude > 0, grain, np.inf)
        small = self.mignitude
        return np.where(small > 0, small, above_zero)

    def __len__(self) -> int:
        return len(self.lo)

    def __getitem__(self, key: Any) -> Interval:
        return self.map(lambda x: x[key])

    def __neg__(self) -> Interval:
        return Interval(-self.hi, -self.lo)

    def __sub__(self, other: Interval) -> Interval:
        """Exact difference, of integer exponents."""
        return Interval(self.lo - other.hi, self.hi - other.lo)

    def map(self, change: Callable[[F64], F64]) -> Interval:
        """Applies one change of shape to every array of the interval."""
        lo = change(self.lo)
        hi = lo if self.lo is self.hi else change(self.hi)
        near = None if self.near is None else self.near.map(change)
        grain = None if self.grain is None else change(self.grain)
        return Interval(lo, hi, near, grain, self.tall)

    def reshape(self, *shape: int) -> Interval:
        """The interval with another shape."""
        return self.map(lambda x: x.reshape(*shape))

    def swapaxes(self, first: int, second: int) -> Interval:
        """The interval with two axes exchanged."""
        return self.map(lambda x: x.swapaxes(first, second))

    def meet(self, other: Interval) -> Interval:
        """What two enclosures of the same numbers have in common; open stays open."""
        lo, hi = np.maximum(self.lo, other.lo), np.minimum(self.hi, other.hi)
        return opened_where(self.open, lo, hi)


@dataclass(frozen=True)
class Ternary:
    """A mask that may be undecided: ``sure`` implies ``possible``."""

    sure: Any
    possible: Any


def point(x: Any) -> Interval:
    """Intervals of one number each; open where it is NaN or +infinity."""
    exact = np.asarray(x, dtype=np.float64)
    if np.isfinite(exact).all():
        return Interval(exact, exact)
    wild = np.isnan(exact) | (exact == np.inf)
    if not wild.any():
        return Interval(exact, exact)
    return Interval(np.where(wild, -np.inf, exact), np.where(wild, np.inf, exact))


def closed(lo: Any, hi: Any) -> Interval:
    """[lo, hi], open where an end is NaN or infinite (an overflow, and NaN may follow)."""
    if lo is hi:
        known = np.isfinite(lo)
    else:
        known = np.isfinite(lo) & np.isfinite(hi)
    if known.all() and np.shape(lo) == np.shape(hi):
        return Interval(lo, hi)
    return Interval(np.where(known, lo, -np.inf), np.where(known, hi, np.inf))


def opened_where(wild: Flags, lo: F64, hi: F64) -> Interval:
    """[lo, hi], open where ``wild``."""
    if not wild.any():
        return Interval(lo, hi)
    return Interval(np.where(wild, -np.inf, lo), np.where(wild, np.inf, hi))


def rounded(lo: F64, hi: F64) -> Interval:
    """Both ends rounded to the nearest float32."""
    low = lo.astype(np.float32).astype(np.float64)
    return closed(low, low if lo is hi else hi.astype(np.float32).astype(np.float64))


def inward(lo: F64, hi: F64) -> Interval:
    """The float32 numbers of a real interval."""
    return closed(_nearest_inside(lo, np.inf), _nearest_inside(hi, -np.inf))


def around(mid: F64, error: F64) -> Interval:
    """The float32 numbers within ``error`` of ``mid``: one end is formed after the other."""
    return closed(_nearest_inside(mid - error, np.inf), _nearest_inside(mid + error, -np.inf))


def last_bit(x: Interval) -> F64:
    """A power of two that divides every number of the interval (infinite for [0, 0])."""
    least = x.least
    exponent = np.frexp(np.where(np.isfinite(least), least, 1.0))[1]
    bit = np.ldexp(1.0, exponent - FP32_BITS)
    return np.where(np.isfinite(least), np.maximum(bit, SMALLEST), np.inf)


def _nearest_inside(x: F64, towards: float) -> F64:
    single = x.astype(np.float32)
    outside = single < x if towards > 0 else single > x
    del x  # arrays of a long row take much room
    # The next number is the next magnitude or the last one, and magnitudes are ordered like their
    # bits. Where x is outside, its sign is that of the number it was rounded to, of 0 too.
    bits, below_zero = single.view(np.int32), np.signbit(single)
    below_zero &= outside  # in place, too
    outside ^= below_zero
    up, down = (outside, below_zero) if towards > 0 else (below_zero, outside)
    bits += up
    bits -= down
    return single.astype(np.float64)


def next_above(x: F64) -> F64:
    """The float64 above each number that is not negative; NaN and infinity stay."""
    if not np.isfinite(x).all():
        return np.nextafter(x, np.inf)
    return (np.abs(x).view(np.int64) + 1).view(np.float64)  # magnitudes are ordered like their bits
