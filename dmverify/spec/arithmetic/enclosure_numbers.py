"""What a kernel's numbers are where they are not NaN: casts that may overflow, as sets.

Where a code may overflow (amax / 448 is subnormal, so a quotient may pass 464) a kernel has NaN
there, or 448 if it saturates. ``Enclosure`` opens such a code, and whatever follows from it. Here
it is the codes up to 448, so that what follows stays bounded; the NaN is told apart by the elements
that ``Enclosure`` leaves open. That is sound while a NaN makes every number NaN that it enters:
sums, dots and products do. A tile's amax need not: fmax drops a NaN, and a comparison with
it is false, which gives the scale 1. For the cast sites ``any_scale``, whose amax one may enter,

    code x scale is between 0 and 2 x for whatever scale it was cast with (cast-shrinks),

which is then all that is taken of a cast. For finite inputs. Not covered: the zero-sum cast under
any scale; scales that are powers of two.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dmverify.spec.arithmetic.enclosure import CODE_MAX, UNSATURATED, Enclosure
from dmverify.spec.arithmetic.interval import Interval, point, rounded
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import E4M3, Element
from dmverify.spec.lemmas import rests_on
from dmverify.spec.namespace import Array


class Numbers(Enclosure):
    """Intervals of what is not NaN.

    Args:
        contract: One that takes whole rows: its dots are in float32, in any order.
        lengths: See ``Enclosure``.
        any_scale: Cast sites, ``p`` or ``ds``, whose amax a NaN may have entered.
    """

    name = "numbers"

    def __init__(
        self, contract: Contract, *, lengths: tuple[int, int], any_scale: frozenset[str]
    ) -> None:
        super().__init__(contract, lengths=lengths)
        self._any_scale = any_scale

    def array(self, x: Array) -> Interval:
        """Points; a NaN is an operand's code that overflowed, as the inputs are finite."""
        exact = np.asarray(x, np.float64)
        overflowed = np.isnan(exact)
        if not overflowed.any():
            return point(exact)
        ends = (point(np.where(overflowed, side, exact)) for side in (-CODE_MAX, CODE_MAX))
        low, high = ends
        return Interval(low.lo, high.hi)

    @rests_on("cast-shrinks")
    def scale_down(self, x: Interval, scale: Interval, fmt: Element) -> Interval:
        """x / scale, with what its code stands for, saturated or not, and under any scale."""
        quotient = super().scale_down(x, scale, fmt)
        shrunk = Interval(np.minimum(2 * x.lo, 0.0), np.maximum(2 * x.hi, 0.0))
        near, beyond = quotient.near or shrunk, ~(quotient.magnitude < UNSATURATED)
        lo, hi = np.where(beyond, shrunk.lo, near.lo), np.where(beyond, shrunk.hi, near.hi)
        return Interval(quotient.lo, quotient.hi, Interval(lo, hi, near=shrunk))

    @rests_on("cast-set", "e4m3-monotone")
    def cast(self, a: Interval, fmt: Element, *, site: str, saturate: bool) -> Interval:
        """The cast set, of a saturating cast; a number that is open has any code."""
        if fmt is not E4M3:
            return super().cast(a, fmt, site=site, saturate=saturate)
        ends = (np.where(a.open, side, end) for side, end in ((-CODE_MAX, a.lo), (CODE_MAX, a.hi)))
        lo, hi = (fmt.round(end.astype(np.float32), saturate=True) for end in ends)
        near = a.near
        if near is not None and site not in self._any_scale:
            near = Interval(near.lo, near.hi)
        elif near is not None and near.near is not None:
            near = replace(near.near, near=near.near)  # all that is taken of it
        return Interval(lo.astype(np.float64), hi.astype(np.float64), near)

    def mul(self, a: Interval, b: Interval) -> Interval:
        """``a * b``, rounded; of codes under any scale what they stand for."""
        near = a.near if a.near is not None else b.near
        if near is None or near.near is None:
            return super().mul(a, b)
        return rounded(near.lo, near.hi)
