"""How far a cast to a format moves a number: a row a format, from what the format is.

    |RN(x) - x|  <=  max(relative |x|, absolute)           for |x| up to the largest number
                 <=  max(half_unit 2^e, absolute)          for a code of [2^e, 2^(e + 1))

| format | relative | absolute | half_unit | largest |
|---|---|---|---|---|
| p bits after the point | h / (1 + h) | half the smallest number | h = 2^-(p + 1) | its last |
| E4M3 | 1/17 | 2^-10 | 1/16 | 448 |
| E5M2 | 1/9 | 2^-17 | 1/8 | 57,344 |
| INT8 | 0 | 1/2 | | 127 |
| BF16 operands, float32 outputs | 0 | 0 | | the numbers as they came |
| BF16 outputs | 2^-8 | 2^-134 | 2^-8 | |

The worst number lies halfway between two codes, so formats of one byte are looked at whole, gap by
gap, by a test. Rows of E4M3 and of BF16 outputs are those of the table of constants, which lemmas
state. Under a scale from
an amax, RN(amax / largest), x / s is at most largest (1 + 2 U).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

from dmverify.spec.attention.stores import Store
from dmverify.spec.formats import BF16, E4M3, FP32, Element, FloatFormat
from dmverify.spec.ledger.bounds.constants import (
    BF16_ABSOLUTE,
    BF16_BITS,
    BF16_RELATIVE,
    E4M3_ABSOLUTE,
    E4M3_HALF_UNIT,
    E4M3_MAX,
    E4M3_RELATIVE,
    SCALED_MAX,
    U,
)


@dataclass(frozen=True)
class Rounding:
    """One row.

    Attributes:
        relative: Error over the number.
        absolute: Error of a number whose code is subnormal, in units of codes.
        half_unit: Error over the power of two that a code is not below.
        largest: The largest number.
        scaled: The largest argument under a scale from an amax.
    """

    relative: float
    absolute: float
    half_unit: float
    largest: float
    scaled: float

    @property
    def exact(self) -> bool:
        """Whether numbers stay as they came."""
        return self.absolute == 0


@cache
def rounding_of(element: Element) -> Rounding:
    """The row of a format that operands, P or dS are cast to; BF16 operands are not cast."""
    if element is E4M3:
        return Rounding(E4M3_RELATIVE, E4M3_ABSOLUTE, E4M3_HALF_UNIT, E4M3_MAX, SCALED_MAX)
    if element is BF16:
        return _unmoved(element)
    if isinstance(element, FloatFormat):
        return _of_binary(element)
    largest, spacing = element.max_finite, 1
    return Rounding(0.0, spacing / 2, 0.0, largest, largest * (1 + 2 * U))


@cache
def stored_rounding(store: Store) -> Rounding:
    """The row of a format that outputs are stored in; they are float32 before."""
    if store.fmt is FP32:
        return _unmoved(store.fmt)
    own = _of_binary(store.fmt)
    if store.fmt is not BF16:
        return own
    return replace(
        own,
        relative=BF16_RELATIVE,
        absolute=BF16_ABSOLUTE,
        half_unit=math.ldexp(1.0, -BF16_BITS),
    )


def overflow_of(fmt: FloatFormat) -> float:
    """From here on a number rounds beyond the format's largest."""
    return float(fmt.max_finite + 2.0 ** (fmt.emax - fmt.mantissa_bits - 1))


def _unmoved(fmt: FloatFormat) -> Rounding:
    return Rounding(0.0, 0.0, 0.0, fmt.max_finite, fmt.max_finite)


def _of_binary(fmt: FloatFormat) -> Rounding:
    half, largest = 2.0 ** -(fmt.mantissa_bits + 1), fmt.max_finite
    return Rounding(half / (1 + half), fmt.min_subnormal / 2, half, largest, largest * (1 + 2 * U))
