"""Codes to float32 values.

1. FP8 and FP16: a table of all values, each made from its exact rational.
2. Formats with float32's exponent: the code is the upper part of a float32, so shift it into place.

Every NaN code gives the float32 NaN 0x7FFFFFFF. Not covered: codes in any other dtype than the
format's (a float8 tensor of another library is first viewed as uint8).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dmverify.errors import InputError
from dmverify.spec.lemmas import rests_on
from dmverify.spec.namespace import Array, astype, bitcast, namespace_of

if TYPE_CHECKING:
    from dmverify.spec.formats.float_format import FloatFormat

FLOAT32_NAN = 0x7FFFFFFF
FLOAT32_MANTISSA_BITS = 23
FLOAT32_EXPONENT_BITS = 8


def decode(fmt: FloatFormat, codes: Array) -> Array:
    """Return the float32 values of ``codes`` (see ``FloatFormat.decode``)."""
    return (_by_shift if is_wide(fmt) else _by_table)(fmt, codes)


def is_wide(fmt: FloatFormat) -> bool:
    """Whether the format has float32's exponent field, so that codes are leading float32 bits."""
    return fmt.exponent_bits == FLOAT32_EXPONENT_BITS


def signed_codes(fmt: FloatFormat, codes: Array) -> Array:
    """Return ``codes`` as int32, checked.

    Raises:
        InputError: Another dtype than the format's, or a bit above its width.
    """
    xp = namespace_of(codes)
    if codes.dtype != getattr(xp, fmt.code_dtype):
        raise InputError(
            f"codes of dtype {codes.dtype}",
            rule=f"{fmt.name} codes have dtype {fmt.code_dtype}",
            fix=f"convert with .astype or .view to {fmt.code_dtype}",
        )
    signed = bitcast(codes, "int32") if fmt.code_dtype == "uint32" else astype(codes, "int32")
    if fmt.bits not in (8, 16, 32) and bool(((signed >> fmt.bits) != 0).any()):
        raise InputError(
            "a code with bits above the format's width",
            rule=f"{fmt.name} codes have {fmt.bits} bits",
            fix="mask or shift the codes first",
        )
    return signed


def _by_table(fmt: FloatFormat, codes: Array) -> Array:
    index = signed_codes(fmt, codes)
    table = namespace_of(codes).asarray(_table(fmt), device=codes.device)
    return table[index]


def _by_shift(fmt: FloatFormat, codes: Array) -> Array:
    xp = namespace_of(codes)
    bits = signed_codes(fmt, codes) << (32 - fmt.bits)
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return bitcast(xp.where(nan, FLOAT32_NAN, bits), "float32")


@rests_on("e4m3-grid", "e4m3-order")
@cache
def _table(fmt: FloatFormat) -> npt.NDArray[np.float32]:
    """All values of a format of at most 16 bits, in code order."""
    table = np.full(1 << fmt.bits, FLOAT32_NAN, dtype=np.uint32).view(np.float32)
    for magnitude in range(fmt.last_number_code + 1):
        infinite = magnitude == fmt.infinity_code
        value = np.float32(np.inf if infinite else float(fmt.to_fraction(magnitude)))
        table[magnitude] = value
        table[magnitude | fmt.sign_code] = -value
    return table
