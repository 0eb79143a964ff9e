"""Codes to and from exact rationals: the definition that everything else is tested against.

to_fraction: with exponent field f and mantissa m (p bits),
    n = m if f = 0 else 2^p + m,   value = n 2^(max(f, 1) - bias - p).
from_fraction: E = max(floor(log2 |v|), emin), n = |v| / 2^(E - p) rounded to an integer; the code
is (E - emin) 2^p + n, where the hidden bit and a carry out of the mantissa add up by themselves.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dmverify.errors import InputError
from dmverify.spec.formats.encode import check_rounding

if TYPE_CHECKING:
    from dmverify.spec.formats.float_format import FloatFormat


def to_fraction(fmt: FloatFormat, code: int) -> Fraction:
    """Return the exact value of a finite code (see ``FloatFormat.to_fraction``).

    Raises:
        InputError: A NaN, an infinity, or more bits than the format has.
    """
    magnitude = int(code) & (fmt.sign_code - 1)
    if not 0 <= code < 2 * fmt.sign_code or magnitude > fmt.max_code:
        raise InputError(
            f"code {code:#x}",
            rule=f"only finite {fmt.name} codes of {fmt.bits} bits have a rational value",
            fix="treat NaN, infinity and out-of-range codes before asking",
        )
    field, mantissa = divmod(magnitude, 1 << fmt.mantissa_bits)
    significand = mantissa + (1 << fmt.mantissa_bits if field else 0)
    value = significand * power_of_two(max(field, 1) - fmt.bias - fmt.mantissa_bits)
    return -value if code & fmt.sign_code else value


def from_fraction(fmt: FloatFormat, value: Fraction, *, rounding: str, saturate: bool) -> int:
    """Return the code of an exact rational (see ``FloatFormat.from_fraction``).

    Raises:
        InputError: A value that is no rational, or an unknown rounding.
    """
    check_rounding(rounding)
    if not isinstance(value, (Fraction, int)):
        raise InputError(
            f"{value!r} of type {type(value).__name__}",
            rule="from_fraction takes an exact rational",
            fix="pass fractions.Fraction(value)",
        )
    size = abs(Fraction(value))
    exponent = max(floor_log2(size), fmt.emin) if size else fmt.emin
    quanta = size / power_of_two(exponent - fmt.mantissa_bits)
    rounded = round(quanta) if rounding == "nearest" else int(quanta)
    code = ((exponent - fmt.emin) << fmt.mantissa_bits) + rounded
    if code > fmt.max_code:
        code = fmt.max_code if saturate or rounding == "zero" else fmt.overflow_code
    return code | (fmt.sign_code if value < 0 else 0)


def power_of_two(exponent: int) -> Fraction:
    """Return 2^exponent exactly."""
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def floor_log2(value: Fraction) -> int:
    """Return floor(log2(value)) of a positive rational, exactly."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if value >= power_of_two(guess) else guess - 1
