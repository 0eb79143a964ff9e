"""How far an output is from its band's middle, in units of what the band allows.

A margin of at most 1 conforms. NaN where a number is certain, and a number outside of [lo, hi],
have a margin above 1, infinite where nothing may differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmverify.spec.case import F32, F64
from dmverify.spec.enclosure import Band


@dataclass(frozen=True)
class Margin:
    """The worst element of one output.

    Attributes:
        margin: At most 1 if every element conforms.
        at: Its index.
        got: What the kernel returned there.
        low: The smallest number that conforms.
        high: The largest.
        judged: How many elements the band says something about.
        width: Median of the bands' half widths, over the largest magnitude.
    """

    margin: float
    at: tuple[int, ...]
    got: float
    low: float
    high: float
    judged: int
    width: float


def judge(band: Band, got: F32) -> Margin:
    """The worst element of one output."""
    wide = got.astype(np.float64)
    known = np.isfinite(band.hi) | np.isneginf(band.hi)
    margins = np.where(known, _margins(band, wide), 0.0)
    if not margins.size:
        return Margin(0.0, (), 0.0, 0.0, 0.0, 0, 0.0)
    at = np.unravel_index(int(np.argmax(margins)), margins.shape)
    half = (band.below + band.above)[known & np.isfinite(band.below)] / 2
    largest = np.abs(band.mid[np.isfinite(band.mid)]).max(initial=0.0)
    return Margin(
        margin=float(margins[at]),
        at=tuple(int(i) for i in at),
        got=float(wide[at]),
        low=float(band.lo[at]),
        high=float(band.hi[at]),
        judged=int(known.sum()),
        width=float(np.median(half) / largest) if half.size and largest else 0.0,
    )


def _margins(band: Band, got: F64) -> F64:
    with np.errstate(all="ignore"):
        off = got - band.mid
        allowed = np.where(off < 0, band.below, band.above)
        margins = np.where(off == 0, 0.0, np.abs(off) / allowed)
        inside = (got >= band.lo) & (got <= band.hi)
        above_one = np.where(np.isfinite(margins), np.nextafter(1.0, 2.0), np.inf)
        outside = np.maximum(np.where(np.isnan(margins), np.inf, margins), above_one)
    within = np.where(np.isnan(margins), 0.0, np.minimum(margins, 1.0))  # -inf where it must be
    return np.asarray(np.where(inside, within, outside))
