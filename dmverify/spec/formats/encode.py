"""float32 values to codes, rounded once.

On magnitudes, with drop = 23 - mantissa bits:
1. normal range: round the float32 bits to a multiple of 2^drop as an integer (ties to even or
   truncation; a carry runs into the exponent, which is right) and move the exponent bias;
2. subnormal range of the format: the code is |x| / min_subnormal rounded to an integer;
3. beyond ``max_code``: saturate, or infinity, or NaN where there is no infinity;
4. NaN gives the canonical NaN; then the sign is put back.

Input is float32 only. A float64 that is rounded to float32 on the way to a code is rounded twice,
which gives another code for values next to a midpoint. Not covered: stochastic rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dmverify.errors import InputError
from dmverify.spec.formats.decode import FLOAT32_MANTISSA_BITS
from dmverify.spec.lemmas import rests_on
from dmverify.spec.namespace import Array, astype, bitcast, namespace_of

if TYPE_CHECKING:
    from dmverify.spec.formats.float_format import FloatFormat

FLOAT32_BIAS = 127
FLOAT32_INFINITY = 0x7F800000


@rests_on("e4m3-odd", "e4m3-ties")
def encode(fmt: FloatFormat, x: Array, *, rounding: str, saturate: bool) -> Array:
    """Return the codes of float32 ``x`` (see ``FloatFormat.encode``)."""
    x = checked_float32(x)
    check_rounding(rounding)
    xp = namespace_of(x)
    bits = bitcast(x, "int32")
    magnitude = bits & 0x7FFFFFFF
    code = _NORMAL[rounding](fmt, magnitude)
    if fmt.emin > 1 - FLOAT32_BIAS:  # the format's subnormals are normal float32 values
        with np.errstate(invalid="ignore"):  # a signalling NaN is replaced below
            subnormal = _SUBNORMAL[rounding](fmt, abs(x))
        smallest_normal = (fmt.emin + FLOAT32_BIAS) << FLOAT32_MANTISSA_BITS
        code = xp.where(magnitude < smallest_normal, subnormal, code)
    code = xp.where(code > fmt.max_code, _beyond(fmt, magnitude, rounding, saturate), code)
    sign = fmt.sign_code if fmt.bits < 32 else -fmt.sign_code  # int32 holds the top bit negatively
    code = xp.where(bits < 0, code | sign, code)
    code = xp.where(magnitude > FLOAT32_INFINITY, fmt.nan_code, code)
    return bitcast(code, "uint32") if fmt.code_dtype == "uint32" else astype(code, fmt.code_dtype)


def checked_float32(x: Array) -> Array:
    """Return ``x`` if its dtype is float32.

    Raises:
        InputError: It is not.
    """
    xp = namespace_of(x)
    if x.dtype == xp.float32:
        return np.asarray(x) if xp is np else x
    raise InputError(
        f"dtype {x.dtype}",
        rule="formats are encoded from float32: anything wider would be rounded twice",
        fix="convert to float32 first, knowing that this rounds, or use from_fraction",
    )


def check_rounding(rounding: str) -> None:
    """Raise ``InputError`` unless ``rounding`` names a rounding."""
    if rounding not in _NORMAL:
        raise InputError(
            repr(rounding),
            rule=f"rounding is one of {', '.join(sorted(_NORMAL))}",
            fix="name one of them",
        )


def _beyond(fmt: FloatFormat, magnitude: Array, rounding: str, saturate: bool) -> Array:
    """Return the code that replaces one above ``max_code``."""
    xp = namespace_of(magnitude)
    largest = xp.full_like(magnitude, fmt.max_code)
    if saturate:
        return largest
    return xp.where(magnitude >= _OVERFLOWS_FROM[rounding], fmt.overflow_code, largest)


def _rebias(fmt: FloatFormat, code: Array) -> Array:
    return code - ((FLOAT32_BIAS - fmt.bias) << fmt.mantissa_bits)


def _normal_nearest(fmt: FloatFormat, magnitude: Array) -> Array:
    drop = FLOAT32_MANTISSA_BITS - fmt.mantissa_bits
    if drop == 0:
        return magnitude
    below_half = (1 << (drop - 1)) - 1
    return _rebias(fmt, (magnitude + ((magnitude >> drop) & 1) + below_half) >> drop)


def _normal_zero(fmt: FloatFormat, magnitude: Array) -> Array:
    return _rebias(fmt, magnitude >> (FLOAT32_MANTISSA_BITS - fmt.mantissa_bits))


def _subnormal_nearest(fmt: FloatFormat, magnitude: Array) -> Array:
    # Next to 2^23 quanta the float32 spacing is one quantum: the addition rounds, ties to even.
    anchor = np.float32(fmt.min_subnormal * 2.0**FLOAT32_MANTISSA_BITS)
    return bitcast(magnitude + float(anchor), "int32") - int(anchor.view(np.int32))


def _subnormal_zero(fmt: FloatFormat, magnitude: Array) -> Array:
    xp = namespace_of(magnitude)
    below = xp.clip(magnitude, 0.0, fmt.min_normal)  # what is larger is not read
    return astype(xp.nan_to_num(below) * (1.0 / fmt.min_subnormal), "int32")


# Truncation never reaches infinity from a finite value (IEEE 754 section 7.4).
_OVERFLOWS_FROM = {"nearest": 0, "zero": FLOAT32_INFINITY}
_NORMAL: dict[str, Callable[[FloatFormat, Array], Array]] = {
    "nearest": _normal_nearest,
    "zero": _normal_zero,
}
_SUBNORMAL: dict[str, Callable[[FloatFormat, Array], Array]] = {
    "nearest": _subnormal_nearest,
    "zero": _subnormal_zero,
}
