"""Concrete arithmetic for replaying witnesses: exact rationals, no solver, no floating point.

It is written apart from the encodings and from the specification on purpose: a witness that a
solver found is replayed here, so an encoding that says something else than it means is caught.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

U = Fraction(1, 2**24)
F32_MIN_EXPONENT = -126


def pow2(exponent: int) -> Fraction:
    """2 to an integer power, exactly."""
    return Fraction(2) ** exponent


def exponent_of(x: Fraction) -> int:
    """floor(log2 |x|) of a nonzero rational."""
    x = abs(x)
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if pow2(e) <= x else e - 1


def rne(z: Fraction) -> int:
    """Nearest integer, ties to even."""
    return round(z)  # Python rounds a Fraction half to even, exactly


def round_to(x: Fraction, *, fraction_bits: int, min_exponent: int) -> Fraction:
    """Round to nearest even on a binary format without an upper limit."""
    if x == 0:
        return Fraction(0)
    step = pow2(max(exponent_of(x), min_exponent) - fraction_bits)
    return rne(x / step) * step


def round_f32(x: Fraction) -> Fraction:
    """Fp32 round to nearest even, gradual underflow; the caller keeps away from overflow."""
    return round_to(x, fraction_bits=23, min_exponent=F32_MIN_EXPONENT)


def round_e4m3(x: Fraction, *, fraction_bits: int = 3, saturate: bool = True) -> Fraction:
    """E4M3 round to nearest even (448 is the largest value when saturating)."""
    q = round_to(x, fraction_bits=fraction_bits, min_exponent=-6)
    return max(Fraction(-448), min(Fraction(448), q)) if saturate else q


def decode_e4m3(code: int, *, exponent_bits: int = 4) -> Fraction | None:
    """Value of an 8-bit code; None for NaN (and, in E5M2, infinity).

    ``exponent_bits`` 5 gives E5M2 with bias 15.
    """
    mantissa_bits = 7 - exponent_bits
    field, m = (code & 0x7F) >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
    bias = 2 ** (exponent_bits - 1) - 1
    if (exponent_bits == 4 and code & 0x7F == 0x7F) or (exponent_bits == 5 and field == 31):
        return None
    significand = m if field == 0 else m + (1 << mantissa_bits)
    value = significand * pow2(max(field, 1) - bias - mantissa_bits)
    return -value if code & 0x80 else value


def f32_value(bits: int) -> Fraction | None:
    """Exact value of a float32 given by its bits; None for NaN and infinities."""
    value = np.array([bits], dtype=np.uint32).view(np.float32)[0]
    return Fraction(float(value)) if np.isfinite(value) else None


def f32_scalar(bits: int) -> np.float32:
    """The float32 with these bits."""
    return np.float32(np.array([bits], dtype=np.uint32).view(np.float32)[0])


def is_f32(x: Fraction) -> bool:
    """Whether a rational is exactly a finite float32."""
    return round_f32(x) == x and abs(x) < pow2(128)


def truncate(x: Fraction, quantum: Fraction) -> Fraction:
    """Truncate toward zero to a multiple of the quantum."""
    n = abs(x) // quantum
    return n * quantum if x >= 0 else -n * quantum


def wgmma_terms(
    a: Sequence[int], b: Sequence[int], c: Fraction, *, b_exponent_bits: int = 4
) -> tuple[list[Fraction], Fraction, Fraction]:
    """Alignment of one k32 instruction: truncated products, truncated C, and the quantum q.

    Exponents of products are sums of the operands' stored exponents (not normalised).

    Raises:
        ValueError: If an operand is NaN.
    """
    products, exponents = [], []
    for x, y in zip(a, b, strict=True):
        vx, vy = decode_e4m3(x), decode_e4m3(y, exponent_bits=b_exponent_bits)
        if vx is None or vy is None:
            raise ValueError("NaN operands are outside the model of this function")
        products.append(vx * vy)
        if vx * vy != 0:
            exponents.append(_stored(x, 4) + _stored(y, b_exponent_bits))
    if c != 0:
        exponents.append(max(exponent_of(c), F32_MIN_EXPONENT))
    q = pow2(max(exponents, default=0) - 13)
    return [truncate(p, q) for p in products], truncate(c, q), q


def _stored(code: int, exponent_bits: int) -> int:
    field = (code & 0x7F) >> (7 - exponent_bits)
    return max(field, 1) - (1 << (exponent_bits - 1)) + 1


def wgmma(a: Sequence[int], b: Sequence[int], c: Fraction, *, b_exponent_bits: int = 4) -> Fraction:
    """One output element of one k32 FP8 wgmma: align, add exactly, keep 14 significant bits."""
    terms, c_term, _ = wgmma_terms(a, b, c, b_exponent_bits=b_exponent_bits)
    total = sum(terms, c_term)
    return total if total == 0 else truncate(total, pow2(exponent_of(total) - 13))
