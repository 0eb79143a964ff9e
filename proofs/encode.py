"""Encodings shared by the lemmas: E4M3, BF16 and fp32 roundings as z3 formulas.

E4M3 is no IEEE sort (a 4-bit exponent IEEE format tops out at 240), so it is written twice: over
reals with an integer significand, and over the bits of a float32. fp32 uses the solvers' own
Float32 where both solvers are quick, and integers scaled by a binade elsewhere.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import z3

from dmverify.proofs.exact import pow2
from dmverify.proofs.registry import Expr, Goal, Number

F32 = z3.Float32()
RNE, RTP, RTN = z3.RNE(), z3.RTP(), z3.RTN()


def rat(x: Number) -> Expr:
    """A rational constant."""
    x = Fraction(x)
    return z3.RealVal(f"{x.numerator}/{x.denominator}")


def mag(x: Expr) -> Expr:
    """|x| of a real or integer."""
    return z3.If(x >= 0, x, -x)


def top(x: Expr, y: Expr) -> Expr:
    """max(x, y)."""
    return z3.If(x >= y, x, y)


def least(x: Expr, y: Expr) -> Expr:
    """min(x, y)."""
    return z3.If(x <= y, x, y)


def within(x: Expr, bound: Expr) -> Expr:
    """|x| <= bound, as two linear inequalities."""
    return z3.And(x <= bound, -bound <= x)


def nonnegative_square() -> Goal:
    """The fact that goals use when they name a square as a hypothesis."""
    w = z3.Real("w")
    return Goal("squares", (), w * w >= 0)


def nearest_even(z: Expr, m: Expr) -> Expr:
    """The integer m is the real z rounded to nearest, ties to even."""
    twice = 2 * (z - z3.ToReal(m))
    return z3.And(within(twice, rat(1)), z3.Implies(z3.Or(twice == 1, twice == -1), m % 2 == 0))


def rounds_e4m3(
    x: Expr, q: Expr, m: Expr, *, fraction_bits: int = 3, top_exponent: int = 8
) -> Expr:
    """Real q is real x rounded to the E4M3 grid (nearest even, no saturation), |x| < 2^(top+1).

    ``m`` is the integer significand; one disjunct per binade, the first for the subnormals.
    """
    cases = []
    for e in range(-6, top_exponent + 1):
        step = pow2(e - fraction_bits)
        low = 0 if e == -6 else pow2(e)
        scaled = x * rat(1 / step)
        cases.append(
            z3.And(
                mag(x) >= rat(low), mag(x) < rat(pow2(e + 1)),
                nearest_even(scaled, m), q == z3.ToReal(m) * rat(step),
            )
        )  # fmt: skip
    return z3.Or(*cases)


def f32(bits: Expr) -> Expr:
    """A 32-bit vector read as a Float32."""
    return z3.fpBVToFP(bits, F32)


def bv(value: int, width: int = 32) -> Expr:
    """A bit-vector constant."""
    return z3.BitVecVal(value, width)


def magnitude_bits(bits: Expr) -> Expr:
    """Bits of |x|; they order like the values."""
    return bits & bv(0x7FFFFFFF)


def sign_bits(bits: Expr) -> Expr:
    """The sign bit alone."""
    return bits & bv(0x80000000)


def finite_bits(bits: Expr) -> Expr:
    """Neither NaN nor infinite."""
    return z3.ULT(magnitude_bits(bits), bv(0x7F800000))


def drop_bits(magnitude: Expr, count: int) -> Expr:
    """Round the low ``count`` bits away, nearest even; the carry may enter the exponent."""
    odd = z3.LShR(magnitude, count) & bv(1)
    return (magnitude + bv((1 << (count - 1)) - 1) + odd) & bv(0xFFFFFFFF ^ ((1 << count) - 1))


def f32_bits(x: Number) -> int:
    """Bits of a rational that is a float32."""
    return int(np.array([float(x)], dtype=np.float32).view(np.uint32)[0])


def e4m3_bits(bits: Expr, *, fraction_bits: int = 3, saturate: bool = True) -> Expr:
    """A float32 rounded to the E4M3 grid, as float32 bits. NaN and infinities are excluded."""
    m = magnitude_bits(bits)
    normal = drop_bits(m, 23 - fraction_bits)
    small: Expr = bv(0)
    step = pow2(-6 - fraction_bits)
    for j in range(2**fraction_bits):
        edge = bv(f32_bits((j + Fraction(1, 2)) * step))
        beyond = z3.UGE(m, edge) if j % 2 else z3.UGT(m, edge)
        small = z3.If(beyond, bv(f32_bits((j + 1) * step)), small)
    rounded = z3.If(z3.ULT(m, bv(f32_bits(pow2(-6)))), small, normal)
    if saturate:
        rounded = z3.If(z3.UGT(rounded, bv(f32_bits(448))), bv(f32_bits(448)), rounded)
    return sign_bits(bits) | rounded


def bf16_bits(bits: Expr, *, dropped: int = 16) -> Expr:
    """A float32 rounded to BF16 (nearest even, overflow to infinity), as float32 bits."""
    return sign_bits(bits) | drop_bits(magnitude_bits(bits), dropped)


def exact_difference(x: Expr, y: Expr) -> Expr:
    """x - y is a float: rounding it up and rounding it down give the same."""
    return z3.fpEQ(z3.fpSub(RTP, x, y), z3.fpSub(RTN, x, y))
