"""What a floating-point format is: frozen data, with the operations attached by name.

A code is sign | exponent | mantissa. With the sign taken off, codes are ordered like the values, so
one integer (``max_code``) says where the finite numbers end and what lies above is special:

    value(code) = m 2^(emin - p)                  exponent field 0 (subnormal; p mantissa bits)
    value(code) = (1 + m 2^-p) 2^(field - bias)   otherwise, up to ``max_code``
    infinity_code (if the format has one), then NaN

Source: IEEE 754-2019 section 3.4; OCP 8-bit Floating Point Specification 1.0 for E4M3 and E5M2. Not
covered: decimal formats, formats with no sign or no subnormals, formats wider than float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

from dmverify.spec.formats import decode, encode, rational, rounding
from dmverify.spec.namespace import Array

Rounding: TypeAlias = Literal["nearest", "zero"]
"""``nearest`` is to nearest, ties to even; ``zero`` truncates the magnitude."""


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary floating-point format whose finite values are all float32 values.

    Attributes:
        name: The name users see, such as ``E4M3``.
        exponent_bits: Width of the exponent field.
        mantissa_bits: Width of the stored mantissa field (without the hidden bit).
        bias: Exponent bias.
        max_code: The unsigned code of the largest finite value.
        infinity_code: The unsigned code of infinity, or None where the format has none.
        nan_code: The NaN that every NaN input is encoded to (positive, as the hardware makes it).
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    max_code: int
    infinity_code: int | None
    nan_code: int

    @property
    def bits(self) -> int:
        """Width of a code."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def code_dtype(self) -> str:
        """Name of the unsigned dtype that holds codes: uint8, uint16 or uint32."""
        return next(f"uint{width}" for width in (8, 16, 32) if self.bits <= width)

    @property
    def sign_code(self) -> int:
        """The sign bit of a code."""
        return 1 << (self.bits - 1)

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal value (and of all subnormal quanta)."""
        return 1 - self.bias

    @property
    def emax(self) -> int:
        """Exponent of the largest finite value."""
        return (self.max_code >> self.mantissa_bits) - self.bias

    @property
    def overflow_code(self) -> int:
        """What an overflow gives when it does not saturate: infinity, else NaN."""
        return self.nan_code if self.infinity_code is None else self.infinity_code

    @property
    def last_number_code(self) -> int:
        """The largest unsigned code that is not NaN."""
        return self.max_code if self.infinity_code is None else self.infinity_code

    @property
    def max_finite(self) -> float:
        """The largest finite value (448 for E4M3)."""
        return float(self.to_fraction(self.max_code))

    @property
    def min_normal(self) -> float:
        """The smallest positive normal value."""
        return float(2.0**self.emin)

    @property
    def min_subnormal(self) -> float:
        """The smallest positive value, which every finite value is a multiple of."""
        return float(2.0 ** (self.emin - self.mantissa_bits))

    def decode(self, codes: Array) -> Array:
        """Return the float32 values of ``codes``; every NaN becomes the float32 NaN 0x7FFFFFFF.

        Args:
            codes: Array of any shape, dtype ``code_dtype``.

        Raises:
            InputError: Another dtype, or bits set above the width of the format.

        >>> import numpy as np
        >>> from dmverify.spec.formats import E4M3
        >>> E4M3.decode(np.array([0x7E, 0x01, 0x80], dtype=np.uint8)).tolist()
        [448.0, 0.001953125, -0.0]
        """
        return decode.decode(self, codes)

    def encode(self, x: Array, *, rounding: Rounding = "nearest", saturate: bool = True) -> Array:
        """Return the codes of float32 ``x``, rounded once.

        Args:
            x: Array of any shape, dtype float32.
            rounding: ``nearest`` (ties to even) or ``zero``.
            saturate: Whether overflow and infinity give the largest finite value of that sign.
                Otherwise a value that rounds beyond it gives infinity, or NaN in a format without
                one; under ``zero`` only infinity itself does.

        Raises:
            InputError: Another dtype (float64 would be rounded twice), or an unknown rounding.

        >>> import numpy as np
        >>> from dmverify.spec.formats import E4M3
        >>> E4M3.encode(np.array([464.0, 1e9], dtype=np.float32), saturate=False).tolist()
        [126, 127]
        """
        return encode.encode(self, x, rounding=rounding, saturate=saturate)

    def round(self, x: Array, *, rounding: Rounding = "nearest", saturate: bool = True) -> Array:
        """Return ``decode(encode(x))`` as float32, without making the codes.

        Args:
            x: Array of any shape, dtype float32.
            rounding: As for ``encode``.
            saturate: As for ``encode``.

        Raises:
            InputError: As for ``encode``.
        """
        return _ROUND(self, x, rounding=rounding, saturate=saturate)

    def to_fraction(self, code: int) -> Fraction:
        """Return the exact value of one code.

        Raises:
            InputError: The code is NaN, infinite or out of range.
        """
        return rational.to_fraction(self, code)

    def from_fraction(
        self, value: Fraction, *, rounding: Rounding = "nearest", saturate: bool = True
    ) -> int:
        """Return the code of an exact rational, rounded once.

        Args:
            value: An exact value; zero gives the positive zero.
            rounding: As for ``encode``.
            saturate: As for ``encode``.

        Raises:
            InputError: ``value`` is no rational (a float would hide an earlier rounding), or an
                unknown rounding.
        """
        return rational.from_fraction(self, value, rounding=rounding, saturate=saturate)


_ROUND = rounding.round_values  # the methods' ``rounding`` argument hides the module
