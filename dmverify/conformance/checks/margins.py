"""Margins: how far numbers are from the middle of their band, in units of what is allowed there.

The verdict compares with the allowed ends, which are numbers of the output's format. The margin is
the distance from the reference over what is allowed on that side; it grows past 1 smoothly, and an
element outside never has a margin of 1 or less.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dmverify.conformance.verdict import Element
from dmverify.spec.case import F32, F64
from dmverify.spec.enclosure import Band
from dmverify.spec.margin import margin_of

JUST_OUTSIDE = float(np.nextafter(1.0, 2.0))

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Judged:
    """Element by element: margin, and which the contract leaves undetermined."""

    margin: F64
    open: Flags


def compare(got: F32, band: Band) -> Judged:
    """Margins of all elements; 0 where the contract leaves the element undetermined."""
    wide = got.astype(np.float64)
    may = band.may_nan & ~band.must_nan
    open_ = may & np.isposinf(band.hi)  # any number, too
    inside = (wide >= band.lo) & (wide <= band.hi)
    with np.errstate(invalid="ignore"):
        error = wide - band.mid
    margin = margin_of(error, np.where(wide > band.mid, band.above, band.below))
    margin = np.where(wide == band.mid, 0.0, margin)  # infinities of the same sign
    margin = np.where(inside, np.minimum(margin, 1.0), np.maximum(margin, JUST_OUTSIDE))
    margin = np.where(open_ | (may & np.isnan(wide)), 0.0, margin)
    missing = np.where(np.isnan(wide), 0.0, np.inf)  # NaN is due
    return Judged(np.where(band.must_nan, missing, margin), open_)


def other_bits(got: F32, due: F32) -> Flags:
    """Which numbers differ in a bit, the sign of zero included; NaN equals NaN."""
    bits, wanted = (np.ascontiguousarray(x).view(np.uint32) for x in (got, due))
    return np.asarray((bits != wanted) & ~(np.isnan(got) & np.isnan(due)))


def element(output: str, got: F32, band: Band, at: tuple[int, ...], margin: float) -> Element:
    """One element with its hex codes and its allowed range."""
    value, mid = float(got[at]), float(band.mid[at])
    side = band.above if value > mid else band.below
    expected = float("nan") if band.must_nan[at] else mid
    return Element(
        output=output,
        index=at,
        got=value,
        got_hex=hex_code(got[at]),
        expected=expected,
        expected_hex=hex_code(np.float32(expected)),
        bound=float(side[at]),
        lo=float(band.lo[at]),
        hi=float(band.hi[at]),
        margin=margin,
    )


def hex_code(value: np.float32) -> str:
    """BF16 code of a BF16 number, float32 code of any other."""
    bits = int(np.float32(value).view(np.uint32))
    return f"0x{bits:08x}" if bits & 0xFFFF else f"0x{bits >> 16:04x}"
