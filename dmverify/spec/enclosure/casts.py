"""Casts of intervals to E4M3 and back: the codes, and the numbers, that a kernel can have.

For a tile with amax a in [a-, a+] and an element x in [x-, x+]:

1. s = RN(a / 448) lies between RN(a- / 448) and RN(a+ / 448); 1 if a = 0.
2. x / s lies between the quotients of the ends, and abs(x / s) <= 448 (1 + 4 u + eta / s), as
   abs(x) <= a and s is a / 448 up to u relative or eta / 2.
3. Codes are the E4M3 numbers from RN(lo) to RN(hi); usually they are one code.
4. The number is RN(code * s), between the products of the ends.

RN is monotone, so the ends are computed with the kernel's own float32 operations. ``weights`` casts
exponentials that are known up to one common factor per row (the kernel's row maximum), which
cancels in x / s; there the ends carry 4 u + eta / s for the roundings instead.

If s may be below 2^-144, x / s may pass 464 and become NaN: the tile is open (see ``interval``),
unless s is certain, when the quotient is. An amax that may be 0 is either 0 or at least the
smallest nonzero number that the kernel can form there (``least``). Not covered: saturating casts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dmverify.spec.case import F32, F64
from dmverify.spec.enclosure.interval import ETA, Interval, U, closed
from dmverify.spec.formats import E4M3

Flags = npt.NDArray[np.bool_]

TOP = np.float32(E4M3.max_finite)
SAFE_SCALE = 2.0**-144  # rounding to a multiple of 2^-149 changes a larger scale by 2^-6 at most


def cast_interval(x: Interval, rows: int, columns: int, least: F64 | None = None) -> Interval:
    """The numbers after a cast with one scale per tile.

    Args:
        x: (N, M), ends that are float32 numbers.
        rows: Rows of a tile.
        columns: Columns of a tile.
        least: Smallest nonzero magnitude each element can have, if it can be zero.
    """
    if x.lo.size == 0:
        return x
    smallest = np.maximum(x.mig, ETA if least is None else least)
    floor = -over_tiles(-np.where(x.mag > 0, smallest, np.inf), rows, columns)
    low, high = (over_tiles(end, rows, columns) for end in (x.mig, x.mag))
    s_lo = _scale(np.where(high > 0, np.maximum(low, np.minimum(floor, high)), 0.0))
    s_hi = _scale(high)
    certain = s_lo == s_hi
    d_lo, d_hi = _codes(x, s_lo, s_hi, certain)
    lo = np.minimum(d_lo * s_lo, d_lo * s_hi).astype(np.float64)
    hi = np.maximum(d_hi * s_lo, d_hi * s_hi).astype(np.float64)
    unsafe = (~certain & (s_lo < SAFE_SCALE)) | x.open
    return closed(np.where(unsafe, -np.inf, lo), np.where(unsafe, np.inf, hi))


def _scale(amax: F64) -> F32:
    """The article's rule on float32 numbers."""
    single = amax.astype(np.float32)
    return np.where(single == 0, np.float32(1), single / TOP)


def _codes(x: Interval, s_lo: F32, s_hi: F32, certain: Flags) -> tuple[F32, F32]:
    lo, hi = x.lo.astype(np.float32), x.hi.astype(np.float32)
    low = np.minimum(lo / s_lo, lo / s_hi)
    high = np.maximum(hi / s_lo, hi / s_hi)
    largest = (448 * (1 + 4 * U + ETA / s_lo.astype(np.float64))).astype(np.float32)
    low = np.where(certain, low, np.maximum(low, -largest))
    high = np.where(certain, high, np.minimum(high, largest))
    return E4M3.round(low, saturate=False), E4M3.round(high, saturate=False)


def cast_weights(e: Interval, columns: int, stretch: F64) -> Interval:
    """Exponentials after the cast, one scale per row and group of columns.

    Args:
        e: (N, M), not negative, up to a common factor per row.
        columns: Width of a group.
        stretch: The common factor lies in [1 / stretch, stretch], (N, 1).
    """
    if e.lo.size == 0:
        return e
    low, high = (over_tiles(end, 1, columns) for end in (e.lo, e.hi))
    smallest = np.where(high > 0, low / 448 / stretch, 1.0)  # scale in the kernel's own numbers
    error = 4 * U + ETA / smallest
    x_lo = e.lo / high * (448 * (1 - error))
    x_hi = np.minimum(e.hi / low, 1.0) * (448 * (1 + error))
    d_lo, d_hi = (
        E4M3.round(np.where(high > 0, x, 0.0).astype(np.float32), saturate=False).astype(np.float64)
        for x in (x_lo, x_hi)
    )
    underflow = np.where(d_hi > 0, ETA * stretch, 0.0)
    lo = np.maximum(d_lo * low / 448 * (1 - error) - underflow, 0.0)
    hi = d_hi * high / 448 * (1 + error) + underflow
    unsafe = ~(smallest > SAFE_SCALE)
    return closed(np.where(unsafe, -np.inf, lo), np.where(unsafe, np.inf, hi))


def over_tiles(x: F64, rows: int, columns: int) -> F64:
    """The maximum of each tile of (N, M), at every element of the tile."""
    n, m = x.shape
    padded = np.pad(x, ((0, -n % rows), (0, -m % columns)), constant_values=-np.inf)
    tiles = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
    top = tiles.max((1, 3), keepdims=True)
    return np.asarray(np.broadcast_to(top, tiles.shape).reshape(padded.shape)[:n, :m])
