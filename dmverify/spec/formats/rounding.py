"""float32 values to float32 values of a format: ``decode(encode(x))`` without the codes.

For FP8 and FP16, to nearest, in three float32 operations: with q the quantum at x (from x's own
exponent bits), 1.5 * 2^23 q has spacing q, so adding and subtracting it rounds x to a multiple of
q, ties to even. Rounding up into the next binade lands on a multiple of that binade's quantum too.
The sum stays below 2^24 q as |x| < 2^(p+1) q, p <= 10. Everything else goes through the codes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmverify.spec.formats.decode import FLOAT32_MANTISSA_BITS, FLOAT32_NAN, decode, is_wide
from dmverify.spec.formats.encode import FLOAT32_BIAS, check_rounding, checked_float32, encode
from dmverify.spec.lemmas import rests_on
from dmverify.spec.namespace import Array, bitcast, namespace_of

if TYPE_CHECKING:
    from dmverify.spec.formats.float_format import FloatFormat


def round_values(fmt: FloatFormat, x: Array, *, rounding: str, saturate: bool) -> Array:
    """Return ``x`` rounded to ``fmt`` as float32 (see ``FloatFormat.round``)."""
    x = checked_float32(x)
    check_rounding(rounding)
    if rounding == "nearest" and not is_wide(fmt):
        return _nearest_by_addition(fmt, x, saturate)
    return decode(fmt, encode(fmt, x, rounding=rounding, saturate=saturate))


@rests_on("sterbenz", "e4m3-ties")
def _nearest_by_addition(fmt: FloatFormat, x: Array, saturate: bool) -> Array:
    xp = namespace_of(x)
    flat = x.reshape(-1)  # in place below, which scalars would not allow
    with np.errstate(invalid="ignore"):  # a signalling NaN is replaced at the end
        top = fmt.max_finite if saturate else 2.0 ** (fmt.emax + 1)
        y = xp.clip(flat, -top, top)
        anchor = bitcast(_anchor_bits(fmt, y), "float32")
        y += anchor
        y -= anchor
        y = xp.copysign(y, flat)  # the sum loses the sign of zero
        nan = flat != flat
        if not saturate:
            nan = _overflow(fmt, y, nan)
        bitcast(y, "int32")[nan] = FLOAT32_NAN
    return y.reshape(x.shape)


def _overflow(fmt: FloatFormat, y: Array, nan: Array) -> Array:
    """Put infinity where ``y`` is beyond the format; return where NaN is due."""
    beyond = abs(y) > fmt.max_finite
    if fmt.infinity_code is None:
        return nan | beyond
    y[beyond] *= float("inf")
    return nan


def _anchor_bits(fmt: FloatFormat, y: Array) -> Array:
    """Return the float32 bits of 1.5 * 2^23 q, q being the format's quantum at ``y``."""
    smallest_normal = (fmt.emin + FLOAT32_BIAS) << FLOAT32_MANTISSA_BITS
    bits = (bitcast(y, "int32") & 0x7F800000).clip(smallest_normal)
    bits += ((FLOAT32_MANTISSA_BITS - fmt.mantissa_bits) << FLOAT32_MANTISSA_BITS) + 0x400000
    return bits
