"""Bands: what the enclosure says about one output tensor, ready to judge a kernel's numbers.

An output conforms where lo <= got <= hi, the ends being numbers of the format it is stored in
(RN is monotone, so these are the stored ends of the enclosure). For a margin that grows smoothly,
``below`` and ``above`` are the distances the contract allows from ``mid`` before the store, plus
half a unit of the store: every allowed number is within them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dmverify.spec.arithmetic.interval import Interval, closed
from dmverify.spec.case import F64
from dmverify.spec.formats import BF16, FloatFormat
from dmverify.spec.lemmas import rests_on

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Band:
    """Allowed values of one output; all arrays have the output's shape.

    Attributes:
        lo: Smallest allowed stored value, -inf where anything goes.
        hi: Largest allowed stored value.
        mid: Reference in the middle, before the store.
        below: How far below ``mid`` a kernel may be.
        above: How far above.
        must_nan: Where every conforming kernel gives NaN.
        may_nan: Where one may.
    """

    lo: F64
    hi: F64
    mid: F64
    below: F64
    above: F64
    must_nan: Flags
    may_nan: Flags


def exact_band(values: npt.NDArray[np.floating]) -> Band:
    """The band that allows one value an element: outputs known bit for bit."""
    wide = values.astype(np.float64)
    nan, zero = np.isnan(wide), np.zeros_like(wide)
    mid = np.where(nan, 0.0, wide)
    return Band(mid, mid, mid, zero, zero, nan, nan)


def single_band(x: Interval, must_nan: Flags) -> Band:
    """The band of an output that is stored in float32: the interval itself."""
    return _band(x, x, np.zeros_like(x.lo), must_nan)


@rests_on("bf16-store", "bf16-store-tiny", "bf16-overflow")
def rounded_band(x: Interval, must_nan: Flags, fmt: FloatFormat = BF16) -> Band:
    """The band of an output that is stored in BF16, or in FP16."""
    return _band(x, store_in(fmt, x), half_unit(x.magnitude, fmt), must_nan)


def store_in(fmt: FloatFormat, x: Interval) -> Interval:
    """The numbers of a format that the float32 numbers of an interval round to."""
    lo, hi = (
        fmt.round(end.astype(np.float32), saturate=False).astype(np.float64) for end in (x.lo, x.hi)
    )
    return closed(lo, hi)


def half_unit(size: F64, fmt: FloatFormat = BF16) -> F64:
    """Half a unit in the last place of a magnitude; the subnormal one where it is tiny."""
    finite = np.where(np.isfinite(size), size, 1.0)
    exponent = np.frexp(np.maximum(finite, fmt.min_normal))[1] - 1
    return np.asarray(np.ldexp(1.0, exponent - fmt.mantissa_bits - 1))


def _band(x: Interval, stored: Interval, store: F64, must_nan: Flags) -> Band:
    certain = np.isneginf(x.hi)  # LSE of a dead row: -inf and nothing else
    mid = np.where(certain, -np.inf, np.where(x.open, 0.0, x.mid))
    with np.errstate(invalid="ignore"):
        below = np.where(certain, 0.0, np.nextafter(mid - x.lo, np.inf) + store)
        above = np.where(certain, 0.0, np.nextafter(x.hi - mid, np.inf) + store)
    point = ~certain & (x.lo == x.hi) & (store == 0)
    below, above = (np.where(point, 0.0, side) for side in (below, above))
    return Band(
        lo=stored.lo,
        hi=np.where(certain, -np.inf, stored.hi),
        mid=mid,
        below=below,
        above=above,
        must_nan=np.broadcast_to(must_nan, x.lo.shape),
        may_nan=(x.open & ~certain) | must_nan,
    )
