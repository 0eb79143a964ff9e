"""The formats of attention kernels' numbers, one row each.

| format | sign, exponent, mantissa | bias | max finite | infinity | source |
|---|---|---|---|---|---|
| E4M3 | 1, 4, 3 | 7 | 448 | none | OCP 8-bit Floating Point Specification 1.0, section 5 |
| E5M2 | 1, 5, 2 | 15 | 57,344 | yes | the same |
| FP16 | 1, 5, 10 | 15 | 65,504 | yes | IEEE 754 binary16 |
| BF16 | 1, 8, 7 | 127 | (2 - 2^-7) 2^127 | yes | the upper half of a float32 |
| FP32 | 1, 8, 23 | 127 | (2 - 2^-23) 2^127 | yes | IEEE 754 binary32 |
| TC14 | 1, 8, 13 | 127 | (2 - 2^-13) 2^127 | yes | the result of FP8 wgmma, measured on an H200 |

| INT8 | integers | | 127 | none | two's complement without -128 |

TC14 has 14 significant bits: the float32 that wgmma writes has its low 10 bits 0.

The canonical NaN has all bits set but the sign, as the hardware's (float32 0x7FFFFFFF).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from dmverify.spec.formats.float_format import FloatFormat
from dmverify.spec.formats.integer_format import IntegerFormat

E4M3 = FloatFormat("E4M3", 4, 3, 7, max_code=0x7E, infinity_code=None, nan_code=0x7F)
E5M2 = FloatFormat("E5M2", 5, 2, 15, max_code=0x7B, infinity_code=0x7C, nan_code=0x7F)
FP16 = FloatFormat("FP16", 5, 10, 15, max_code=0x7BFF, infinity_code=0x7C00, nan_code=0x7FFF)
BF16 = FloatFormat("BF16", 8, 7, 127, max_code=0x7F7F, infinity_code=0x7F80, nan_code=0x7FFF)
FP32 = FloatFormat(
    "FP32", 8, 23, 127, max_code=0x7F7FFFFF, infinity_code=0x7F800000, nan_code=0x7FFFFFFF
)
TC14 = FloatFormat("TC14", 8, 13, 127, max_code=0x1FDFFF, infinity_code=0x1FE000, nan_code=0x1FFFFF)

INT8 = IntegerFormat("INT8", largest=127)

FORMATS = {fmt.name: fmt for fmt in (E4M3, E5M2, FP16, BF16, FP32, TC14)}
"""Every floating-point format by name."""

Element: TypeAlias = FloatFormat | IntegerFormat
"""What an operand's codes are numbers of."""

ELEMENTS: Mapping[str, Element] = MappingProxyType(
    {fmt.name.lower(): fmt for fmt in (E4M3, E5M2, INT8, BF16)}
)
"""Formats of operands, by the words of contracts."""
