"""The worst element of an output against its band, and how wide the band is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmverify.conformance.checks.bands import compare
from dmverify.spec.case import F32
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
    """The worst element of one output, by the judge's own rule (``checks.bands``)."""
    found = compare(got, band)
    if not got.size:
        return Margin(0.0, (), 0.0, 0.0, 0.0, 0, 0.0)
    at = np.unravel_index(int(np.argmax(found.margin)), got.shape)
    half = (band.below + band.above)[~found.open & np.isfinite(band.below + band.above)] / 2
    largest = np.abs(band.mid[np.isfinite(band.mid)]).max(initial=0.0)
    return Margin(
        margin=float(found.margin[at]),
        at=tuple(int(i) for i in at),
        got=float(got[at]),
        low=float(band.lo[at]),
        high=float(band.hi[at]),
        judged=int((~found.open).sum()),
        width=float(np.median(half) / largest) if half.size and largest else 0.0,
    )
