"""The enclosure's bookkeeping: exponents and decisions that change no exact result."""

from __future__ import annotations

import numpy as np

from dmverify.spec import exponents
from dmverify.spec.arithmetic.enclosure_ends import opened, shut
from dmverify.spec.arithmetic.interval import Interval, Ternary
from dmverify.spec.constants import constant

REFERENCE_NEAR = float(constant("REFERENCE_NEAR"))


class Bookkeeping:
    """Exponents; in the free form one of the choices stands for all (see ``enclosure.py``)."""

    _free: bool

    def ceil(self, a: Interval) -> Interval:
        """Ends; in the free form one integer near all of them stands for all (``enclosure``)."""
        if not self._free:
            return Interval(np.ceil(a.lo), np.ceil(a.hi))
        wild = ~(a.hi - a.lo < REFERENCE_NEAR)
        whole = np.ceil(a.mid)
        return Interval(np.where(wild, -np.inf, whole), np.where(wild, np.inf, whole))

    def ceil_log2(self, a: Interval) -> Interval:
        """Both ends' exponents: the cast's grid depends on the choice."""
        lo, hi = (exponents.ceil_log2(end).astype(np.float64) for end in (a.lo, a.hi))
        return opened(lo, np.where(a.open, np.inf, hi))

    def max_shift_to_448(self, a: Interval, *, limit: int = exponents.LARGEST_FIT) -> Interval:
        """Both ends' exponents: the cast's grid depends on the choice."""
        ends = (exponents.max_shift_to_448(end, limit=limit) for end in (a.hi, a.lo))
        least, most = (end.astype(np.float64) for end in ends)
        lo, hi = np.minimum(least, most), np.maximum(least, most)
        return Interval(np.where(a.open, -np.inf, lo), np.where(a.open, np.inf, hi))

    def pow2(self, n: Interval) -> Interval:
        """2 to an integer power."""
        return shut(n, Interval(np.exp2(n.lo), np.exp2(n.hi)))

    def greater(self, a: Interval, b: Interval) -> Ternary:
        """A mask that may be undecided.

        Where something may be above 0 it is taken to be: a tile that may be all zeros has codes 0,
        whatever its scale. In the free form one kernel's decision stands for all (``enclosure``).
        """
        if b.known and not b.lo.any():
            return Ternary(*[a.hi > 0] * 2)
        if self._free:
            return Ternary(*[a.mid > b.mid] * 2)
        return Ternary(a.lo > b.hi, a.hi > b.lo)
