"""Arrays of closed intervals with float64 ends: the numbers of the ``Enclosure`` interpretation.

Only the array mechanics are here (indexing, reshaping, hulls); what an operation does to the ends
is in ``enclosure.py``. An end that is NaN means that nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dmverify.spec.case import F64


@dataclass(frozen=True)
class Interval:
    """An array of intervals.

    Attributes:
        lo: Lower ends, float64, any shape.
        hi: Upper ends, the same shape, ``lo <= hi``.
    """

    lo: F64
    hi: F64

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.lo.shape

    @property
    def mid(self) -> F64:
        """Midpoints, rounded."""
        return np.asarray(0.5 * self.lo + 0.5 * self.hi)

    @property
    def radius(self) -> F64:
        """At least the distance from ``mid`` to either end."""
        mid = self.mid
        radius = np.maximum(self.hi - mid, mid - self.lo)
        return np.asarray(np.where(self.lo == self.hi, 0.0, np.nextafter(radius, np.inf)))

    @property
    def magnitude(self) -> F64:
        """The largest absolute value in each interval."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    def __len__(self) -> int:
        return len(self.lo)

    def __getitem__(self, key: Any) -> Interval:
        return Interval(self.lo[key], self.hi[key])

    def __neg__(self) -> Interval:
        return Interval(-self.hi, -self.lo)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.lo - other.hi, self.hi - other.lo)

    def reshape(self, *shape: int) -> Interval:
        """Both ends reshaped."""
        return Interval(self.lo.reshape(*shape), self.hi.reshape(*shape))

    def swapaxes(self, first: int, second: int) -> Interval:
        """Both ends with two axes exchanged."""
        return Interval(self.lo.swapaxes(first, second), self.hi.swapaxes(first, second))

    def hull(self, other: Interval) -> Interval:
        """The smallest intervals that hold both."""
        return Interval(np.minimum(self.lo, other.lo), np.maximum(self.hi, other.hi))


@dataclass(frozen=True)
class Ternary:
    """A mask that may be undecided: ``sure`` implies ``possible``."""

    sure: Any
    possible: Any


def point(x: Any) -> Interval:
    """Intervals of one number each."""
    exact = np.asarray(x, dtype=np.float64)
    return Interval(exact, exact)
