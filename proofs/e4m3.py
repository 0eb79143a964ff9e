"""Lemmas about the E4M3 format and its rounding: 4-bit exponent, 3-bit fraction, bias 7, no Inf.

Reals are rounded through an integer significand (``rounds_e4m3``), float32 inputs through their
bits (``e4m3_bits``). NaN codes are covered only where a lemma names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import z3

from dmverify.proofs.encode import (
    bv,
    e4m3_bits,
    f32_bits,
    mag,
    magnitude_bits,
    nearest_even,
    rat,
    rounds_e4m3,
    top,
    within,
)
from dmverify.proofs.exact import U, decode_e4m3, f32_value, pow2, round_e4m3, round_f32
from dmverify.proofs.gaps import (
    sweep_absolute,
    sweep_double_rounding,
    sweep_error,
    sweep_of_code,
    sweep_tiny,
)
from dmverify.proofs.registry import Expr, Goal, Outcome, Sweep, Values, lemma

F = Fraction


def code_units(code: Expr) -> Expr:
    """|value| of an 8-bit code in units of 2^-9, as a 32-bit vector (NaN codes give 245760)."""
    field = z3.ZeroExt(28, z3.Extract(6, 3, code))
    m = z3.ZeroExt(29, z3.Extract(2, 0, code))
    return z3.If(field == 0, m, (m + bv(8)) << (field - bv(1)))


def is_nan_code(code: Expr) -> Expr:
    """The two codes without a value."""
    return (code & z3.BitVecVal(0x7F, 8)) == z3.BitVecVal(0x7F, 8)


def sweep_grid(limit: Fraction) -> Sweep:
    """All 256 codes decoded independently."""
    values = [decode_e4m3(code) for code in range(256)]
    numbers = [v for v in values if v is not None]
    bad = sum(abs(v) > limit or (v * 512).denominator != 1 for v in numbers)
    return Sweep(256, bad + (len(numbers) != 254))


@lemma(
    "e4m3-grid",
    "Every E4M3 value is n 2^-9 with an integer |n| <= 448 * 2^9 (254 codes; two are NaN).",
    topic="e4m3",
    used_by=(
        "spec.arithmetic.enclosure:CODE_MAX",
        "spec.bounds.closed:CODE_MAX",
        "spec.bounds.errors:CODE_MAX",
        "spec.bounds.norms:CODE_MAX",
        "spec.formats.decode:_table",
        "spec.ledger.bounds:BOUNDS",
        "spec.ledger.bounds.constants:E4M3_MAX",
    ),
    constant=448, control=416, sweep=sweep_grid,
)  # fmt: skip
def _e4m3_grid(limit: Fraction) -> Sequence[Goal]:
    code = z3.BitVec("code", 8)

    def replay(v: Values) -> Outcome:
        value = decode_e4m3(int(v["code"]))
        return Outcome(value is not None, value is not None and abs(value) <= limit)

    bound = z3.ULE(code_units(code), bv(int(limit * 512)))
    return [Goal("range", (z3.Not(is_nan_code(code)),), bound, replay)]


def sweep_order(last: Fraction) -> Sweep:
    """All neighbours below the last code."""
    bad = 0
    for code in range(int(last)):
        low, high = decode_e4m3(code), decode_e4m3(code + 1)
        bad += low is None or high is None or not low < high
    return Sweep(int(last), bad)


@lemma(
    "e4m3-order",
    "Codes 0 to 0x7E are ordered as their values, and 0x7E is the last number.",
    topic="e4m3",
    used_by=(
        "spec.formats.decode:_table",
    ),
    constant=0x7E, control=0x7F, kind="format", sweep=sweep_order,
)  # fmt: skip
def _e4m3_order(last: Fraction) -> Sequence[Goal]:
    code = z3.BitVec("code", 8)
    after = code + z3.BitVecVal(1, 8)

    def replay(v: Values) -> Outcome:
        low, high = decode_e4m3(int(v["code"])), decode_e4m3(int(v["code"]) + 1)
        ordered = low is not None and high is not None and low < high
        return Outcome(0 <= int(v["code"]) < last, ordered)

    ordered = z3.And(z3.Not(is_nan_code(after)), z3.ULT(code_units(code), code_units(after)))
    return [Goal("neighbours", (z3.ULT(code, z3.BitVecVal(int(last), 8)),), ordered, replay)]


@lemma(
    "e4m3-error",
    "|RN8(x) - x| <= max(|x|/17, 2^-10) for |x| <= 464.",
    topic="e4m3",
    used_by=(
        "spec.arithmetic.enclosure:Enclosure.carry",
        "spec.arithmetic.enclosure_ends:near_what_was_cast",
        "spec.attention.unspecified_order:widen_code",
        "spec.bounds.closed:CARRIED",
        "spec.bounds.columns:column_bound",
        "spec.bounds.errors:CODES",
        "spec.bounds.premises:PREMISES",
        "spec.bounds.residual:RELATIVE",
        "spec.ledger.bounds.constants:E4M3_RELATIVE",
        "spec.ledger.bounds:_CODE",
    ),
    constant=F(1, 17), control=F(1, 18), sweep=sweep_error,
)  # fmt: skip
def _e4m3_error(c: Fraction) -> Sequence[Goal]:
    x, q, m = z3.Real("x"), z3.Real("q"), z3.Int("m")
    hypotheses = (within(x, rat(464)), rounds_e4m3(x, q, m))

    def replay(v: Values) -> Outcome:
        x, q = F(v["x"]), round_e4m3(F(v["x"]))
        return Outcome(abs(x) <= 464 and q == v["q"], abs(q - x) <= max(abs(x) * c, pow2(-10)))

    return [Goal("error", hypotheses, within(q - x, top(mag(x) * rat(c), rat(pow2(-10)))), replay)]


@lemma(
    "e4m3-error-absolute",
    "|RN8(x) - x| <= 16 for |x| <= 464.",
    topic="e4m3",
    used_by=(
        "spec.arithmetic.enclosure:Enclosure.carry",
    ),
    constant=16, control=15, sweep=sweep_absolute,
)  # fmt: skip
def _e4m3_error_absolute(c: Fraction) -> Sequence[Goal]:
    x, q, m = z3.Real("x"), z3.Real("q"), z3.Int("m")

    def replay(v: Values) -> Outcome:
        x, q = F(v["x"]), round_e4m3(F(v["x"]))
        return Outcome(abs(x) <= 464 and q == v["q"], abs(q - x) <= c)

    hypotheses = (within(x, rat(464)), rounds_e4m3(x, q, m))
    return [Goal("error", hypotheses, within(q - x, rat(c)), replay)]


@lemma(
    "e4m3-error-tiny",
    "|RN8(x) - x| <= 2^-10 for |x| <= 2^-6, so values up to 2^-10 may vanish.",
    topic="e4m3",
    used_by=(
        "spec.arithmetic.enclosure:E4M3_ABSOLUTE",
        "spec.arithmetic.enclosure_ends:near_what_was_cast",
        "spec.attention.unspecified_order:widen_code",
        "spec.bounds.errors:CODES",
        "spec.bounds.residual:ABSOLUTE",
        "spec.ledger.bounds:_CODE",
        "spec.ledger.bounds.constants:E4M3_ABSOLUTE",
    ),
    constant=pow2(-10), control=pow2(-11), sweep=sweep_tiny,
)  # fmt: skip
def _e4m3_error_tiny(c: Fraction) -> Sequence[Goal]:
    x, q, m = z3.Real("x"), z3.Real("q"), z3.Int("m")

    def replay(v: Values) -> Outcome:
        x, q = F(v["x"]), round_e4m3(F(v["x"]))
        return Outcome(abs(x) <= pow2(-6) and q == v["q"], abs(q - x) <= c)

    hypotheses = (within(x, rat(pow2(-6))), rounds_e4m3(x, q, m))
    return [Goal("error", hypotheses, within(q - x, rat(c)), replay)]


@lemma(
    "e4m3-error-of-code",
    "|RN8(x) - x| <= |RN8(x)|/16 for 2^-6 <= |x| <= 464: the error from the code alone.",
    topic="e4m3",
    used_by=(
        "spec.ledger.bounds:BOUNDS",
        "spec.ledger.bounds.constants:E4M3_OF_CODE",
    ),
    constant=F(1, 16), control=F(1, 17), sweep=sweep_of_code,
)  # fmt: skip
def _e4m3_error_of_code(c: Fraction) -> Sequence[Goal]:
    x, q, m = z3.Real("x"), z3.Real("q"), z3.Int("m")

    def replay(v: Values) -> Outcome:
        x, q = F(v["x"]), round_e4m3(F(v["x"]))
        return Outcome(pow2(-6) <= abs(x) <= 464 and q == v["q"], abs(q - x) <= c * abs(q))

    hypotheses = (within(x, rat(464)), mag(x) >= rat(pow2(-6)), rounds_e4m3(x, q, m))
    return [Goal("error", hypotheses, within(q - x, rat(c) * mag(q)), replay)]


@lemma(
    "e4m3-saturation",
    "For |x| <= 464 rounding without an upper limit stays within 448: saturation changes nothing.",
    topic="e4m3",
    used_by=(
        "spec.arithmetic.enclosure:UNSATURATED",
        "spec.machine.hopper.cvt:cvt",
        "spec.ledger.bounds:_CODE",
    ),
    constant=464, control=480,
)  # fmt: skip
def _e4m3_saturation(limit: Fraction) -> Sequence[Goal]:
    x, q, m = z3.Real("x"), z3.Real("q"), z3.Int("m")

    def replay(v: Values) -> Outcome:
        q = round_e4m3(F(v["x"]), saturate=False)
        return Outcome(abs(F(v["x"])) <= limit and q == v["q"], abs(q) <= 448)

    return [
        Goal("range", (within(x, rat(limit)), rounds_e4m3(x, q, m)), within(q, rat(448)), replay)
    ]


@lemma(
    "e4m3-monotone",
    "x <= y implies RN8(x) <= RN8(y), |x|, |y| <= 464 (both with 3 fraction bits).",
    topic="e4m3",
    used_by=(
        "spec.arithmetic.enclosure:Enclosure.cast",
        "spec.arithmetic.enclosure_numbers:Numbers.cast",
        "spec.enclosure.stored:e4m3_band",
    ),
    constant=3, control=2, kind="format",
)  # fmt: skip
def _e4m3_monotone(bits: Fraction) -> Sequence[Goal]:
    x, y, qx, qy = z3.Reals("x y qx qy")
    mx, my = z3.Ints("mx my")
    hypotheses = (
        x <= y, within(x, rat(464)), within(y, rat(464)),
        rounds_e4m3(x, qx, mx), rounds_e4m3(y, qy, my, fraction_bits=int(bits)),
    )  # fmt: skip

    def replay(v: Values) -> Outcome:
        x, y = F(v["x"]), F(v["y"])
        qx, qy = round_e4m3(x), round_e4m3(y, fraction_bits=int(bits), saturate=False)
        same = qx == v["qx"] and qy == v["qy"]
        return Outcome(same and x <= y and abs(x) <= 464 and abs(y) <= 464, qx <= qy)

    return [Goal("order", hypotheses, qx <= qy, replay)]


@lemma(
    "e4m3-odd",
    "RN8(-x) = -RN8(x), and the rounding is unique (both with 3 fraction bits).",
    topic="e4m3",
    used_by=(
        "spec.formats.encode:encode",
    ),
    constant=3, control=2, kind="format",
)  # fmt: skip
def _e4m3_odd(bits: Fraction) -> Sequence[Goal]:
    x, q, p = z3.Reals("x q p")
    mq, mp = z3.Ints("mq mp")
    hypotheses = (
        within(x, rat(464)), rounds_e4m3(x, q, mq),
        rounds_e4m3(-x, p, mp, fraction_bits=int(bits)),
    )  # fmt: skip

    def replay(v: Values) -> Outcome:
        x = F(v["x"])
        p = round_e4m3(-x, fraction_bits=int(bits), saturate=False)
        q = round_e4m3(x)
        return Outcome(abs(x) <= 464 and p == v["p"] and q == v["q"], p == -q)

    return [Goal("symmetry", hypotheses, p == -q, replay)]


def sweep_ties(t: Fraction) -> Sweep:
    """All 126 gaps between neighbouring non-negative values."""
    bad = 0
    for code in range(126):
        low, high = F(decode_e4m3(code) or 0), F(decode_e4m3(code + 1) or 0)
        bad += round_e4m3(low + t * (high - low)) != (high if code % 2 else low)
    return Sweep(126, bad)


@lemma(
    "e4m3-ties",
    "Halfway between two neighbouring values the one with the even code is chosen.",
    topic="e4m3",
    used_by=(
        "spec.formats.encode:encode",
        "spec.formats.rounding:_nearest_by_addition",
    ),
    constant=F(1, 2), control=F(1, 4), sweep=sweep_ties,
)  # fmt: skip
def _e4m3_ties(t: Fraction) -> Sequence[Goal]:
    x, q, target = z3.Reals("x q target")
    k, m, e = z3.Ints("k m e")
    even = z3.If(k % 2 == 0, z3.ToReal(k), z3.ToReal(k + 1))
    places = [
        z3.And(
            e == n, k >= (0 if n == -6 else 8), k <= (13 if n == 8 else 15),
            x == (z3.ToReal(k) + rat(t)) * rat(pow2(n - 3)), target == even * rat(pow2(n - 3)),
        )
        for n in range(-6, 9)
    ]  # fmt: skip

    def replay(v: Values) -> Outcome:
        k, e, x = int(v["k"]), int(v["e"]), F(v["x"])
        normal = (0 if e == -6 else 8) <= k <= (13 if e == 8 else 15)
        expected = (k + k % 2) * pow2(e - 3)
        return Outcome(normal and x == (k + t) * pow2(e - 3), round_e4m3(x) == expected)

    return [Goal("even", (z3.Or(*places), rounds_e4m3(x, q, m)), q == target, replay)]


@lemma(
    "e4m3-equivariance",
    "RN8(2x) = 2 RN8(x) for 2^-6 <= |x| <= 232: powers of two pass through the cast.",
    topic="e4m3",
    used_by=(
        "spec.bounds.closed:E4M3_NORMAL",
        "spec.arithmetic.enclosure_dot:SMALLEST_NORMAL",
        "spec.bounds.errors:E4M3_NORMAL",
        "spec.ledger.bounds.constants:E4M3_SMALLEST_NORMAL",
        "spec.scaling.rules:_power",
    ),
    constant=pow2(-6), control=pow2(-7),
)  # fmt: skip
def _e4m3_equivariance(low: Fraction) -> Sequence[Goal]:
    x = z3.BitVec("x", 32)
    m, double = magnitude_bits(x), x + bv(1 << 23)
    hypotheses = (z3.UGE(m, bv(f32_bits(low))), z3.ULE(m, bv(f32_bits(232))))

    def replay(v: Values) -> Outcome:
        x = f32_value(int(v["x"]))
        ok = x is not None and low <= abs(x) <= 232
        return Outcome(ok, x is not None and round_e4m3(2 * x) == 2 * round_e4m3(x))

    return [Goal("double", hypotheses, e4m3_bits(double) == e4m3_bits(x) + bv(1 << 23), replay)]


@lemma(
    "e4m3-double-rounding",
    "A cast of an fp32 quotient rounds twice: |RN8(RN32(y)) - y| <= max(|y|/17, 2^-10) + u |y| for "
    "|y| <= 464; without the last term it is false.",
    topic="e4m3",
    used_by=(
        "spec.arithmetic.enclosure:Enclosure.scale_down",
        "spec.arithmetic.enclosure_ends:near_what_was_cast",
        "spec.bounds.errors:CODES",
    ),
    constant=1, control=F(1, 2), sweep=sweep_double_rounding, timeout=90,
)  # fmt: skip
def _e4m3_double_rounding(c: Fraction) -> Sequence[Goal]:
    y, z, q = z3.Reals("y z q")
    m, n = z3.Ints("m n")
    fp32 = [
        z3.And(mag(y) >= rat(pow2(k)), mag(y) < rat(pow2(k + 1)),
               nearest_even(y * rat(pow2(23 - k)), n), z == z3.ToReal(n) * rat(pow2(k - 23)))
        for k in range(-6, 9)
    ]  # fmt: skip
    rounding = top(mag(y) * rat(U), rat(pow2(-150)))  # subnormal quotients included
    tiny = z3.And(mag(y) < rat(pow2(-6)), within(z - y, rounding))
    bound = top(mag(y) / 17, rat(pow2(-10))) + mag(y) * rat(c * U)

    def replay(v: Values) -> Outcome:
        y = F(v["y"])
        z = round_f32(y)
        q = round_e4m3(z)
        limit = max(abs(y) / 17, pow2(-10)) + c * U * abs(y)
        same = z == v["z"] and q == v["q"]
        return Outcome(same and pow2(-6) <= abs(y) <= 464, abs(q - y) <= limit)

    base = (within(y, rat(464)), rounds_e4m3(z, q, m))
    return [
        Goal("normal", (*base, z3.Or(*fp32)), within(q - y, bound), replay, guide=(y > 1, y < 2)),
        Goal("tiny", (*base, tiny), within(q - y, bound)),
    ]
