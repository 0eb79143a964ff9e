"""Bands of outputs that are stored in E4M3 times a power of two."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dmverify.spec.arithmetic.interval import Interval, closed
from dmverify.spec.case import F64
from dmverify.spec.enclosure.bands import Band, Flags, single_band
from dmverify.spec.formats import E4M3
from dmverify.spec.lemmas import rests_on


@rests_on("e4m3-half-unit", "e4m3-monotone")
def e4m3_band(x: Interval, must_nan: Flags, exponent: int) -> Band:
    """The band of an output whose codes are those of x 2^exponent, saturating."""
    unit = 2.0**-exponent
    plain = single_band(x, must_nan)
    stored = closed(*(_round(end, exponent) for end in (x.lo, x.hi)))
    magnitude = np.where(x.open, 1.0, x.magnitude) / unit
    binade = np.frexp(np.maximum(magnitude, E4M3.min_normal))[1] - 1
    half = np.ldexp(unit, binade - E4M3.mantissa_bits - 1)
    # What is beyond the largest code is stored as that code, however far it is.
    half = np.maximum(half, x.magnitude - E4M3.max_finite * unit)
    return replace(
        plain,
        lo=np.where(x.open, -np.inf, stored.lo),
        hi=np.where(x.open, np.inf, stored.hi),
        below=plain.below + half,
        above=plain.above + half,
    )


def _round(end: F64, exponent: int) -> F64:
    scaled = (end * 2.0**exponent).astype(np.float32)
    return np.asarray(E4M3.round(scaled, saturate=True), np.float64) * 2.0**-exponent
