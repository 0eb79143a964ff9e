"""Lemmas about what leaves the kernel and what stays finite: BF16, promotion, dead rows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import z3

from dmverify.proofs.encode import (
    RNE,
    bf16_bits,
    bv,
    f32,
    f32_bits,
    finite_bits,
    mag,
    magnitude_bits,
    nearest_even,
    nonnegative_square,
    rat,
    within,
)
from dmverify.proofs.exact import U, f32_scalar, f32_value, is_f32, pow2, rne, round_f32, round_to
from dmverify.proofs.registry import Goal, Outcome, Sweep, Values, lemma

F = Fraction
LOW, HIGH = 2**23, 2**24
FLOAT = z3.Float32()


def round_bf16(x: Fraction) -> Fraction:
    """BF16 round to nearest even on exact rationals, without overflow."""
    return round_to(x, fraction_bits=7, min_exponent=-126)


def sweep_bf16(c: Fraction) -> Sweep:
    """Every fp32 significand in one binade, rounded on its bits."""
    bits = np.arange(0x3F800000, 0x40000000, dtype=np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(
        0xFFFF0000
    )
    x, r = (b.view(np.float32).astype(np.float64) for b in (bits, rounded))
    return Sweep(len(bits), int((np.abs(r - x) > float(c) * x).sum()))


@lemma(
    "bf16-store",
    "|RN16(x) - x| <= 2^-8 |x| for an fp32 x, 2^-126 <= |x| < 2^128 - 2^119.",
    topic="stores",
    used_by=(
        "conformance.bounds:_band_terms",
        "spec.attention.unspecified_order:widen_p",
        "spec.attention.unspecified_order:widen_ds",
        "spec.attention.unspecified_order:widen_heads",
        "spec.attention.unspecified_order:widen_code",
        "spec.bounds.closed:stored_term",
        "spec.bounds.columns:store_bound",
        "spec.enclosure.bands:rounded_band",
        "spec.ledger.bounds.constants:BF16_RELATIVE",
        "spec.ledger.bounds:BOUNDS",
    ),
    constant=pow2(-8), control=pow2(-9), sweep=sweep_bf16,
)  # fmt: skip
def _bf16_store(c: Fraction) -> Sequence[Goal]:
    x, m = z3.Int("x"), z3.Int("m")  # significand in units of 2^-23
    hypotheses = (x >= LOW, x < HIGH, nearest_even(z3.ToReal(x) / 2**16, m))
    error = z3.ToReal(m * 2**16 - x)

    def replay(v: Values) -> Outcome:
        x = F(int(v["x"]), LOW)
        return Outcome(1 <= x < 2, abs(round_bf16(x) - x) <= c * x)

    return [Goal("error", hypotheses, within(error, rat(c) * z3.ToReal(x)), replay)]


@lemma(
    "bf16-store-tiny",
    "|RN16(x) - x| <= 2^-134 for |x| <= 2^-126.",
    topic="stores",
    used_by=(
        "conformance.bounds:_band_terms",
        "spec.bounds.closed:_tiny",
        "spec.bounds.columns:store_bound",
        "spec.enclosure.bands:rounded_band",
        "spec.ledger.bounds.constants:BF16_ABSOLUTE",
        "spec.ledger.bounds:BOUNDS",
    ),
    constant=pow2(-134), control=pow2(-135),
)  # fmt: skip
def _bf16_store_tiny(c: Fraction) -> Sequence[Goal]:
    x, m = z3.Int("x"), z3.Int("m")  # x in units of 2^-149
    hypotheses = (x >= 0, x <= LOW, nearest_even(z3.ToReal(x) / 2**16, m))
    error = z3.ToReal(m * 2**16 - x)

    def replay(v: Values) -> Outcome:
        x = int(v["x"]) * pow2(-149)
        return Outcome(0 <= x <= pow2(-126), abs(round_bf16(F(x)) - x) <= c)

    return [Goal("error", hypotheses, within(error, rat(c / pow2(-149))), replay)]


def sweep_overflow(c: Fraction) -> Sweep:
    """Every fp32 number of the last binade in steps of BF16's there; others are smaller."""
    x = np.arange(LOW, HIGH, dtype=np.int64).astype(np.float64) * 2.0**104
    infinite = np.rint(x * 2.0**-120) * 2.0**120 >= 2.0**128
    return Sweep(len(x), int((infinite != (x >= float(c) * 2.0**127)).sum()))


@lemma(
    "bf16-overflow",
    "An fp32 x stores as infinity exactly when |x| >= 2^128 - 2^119 (twice 2^127 less 2^119).",
    topic="stores",
    used_by=(
        "spec.enclosure.bands:rounded_band",
        "spec.ledger.bounds.premises:PREMISES",
        "spec.ledger.bounds:BOUNDS",
    ),
    constant=2 - pow2(-8), control=2 - pow2(-7), sweep=sweep_overflow,
)  # fmt: skip
def _bf16_overflow(c: Fraction) -> Sequence[Goal]:
    x = z3.BitVec("x", 32)
    stored = magnitude_bits(bf16_bits(x))
    threshold = bv(f32_bits(c * pow2(127)))

    def replay(v: Values) -> Outcome:
        x = f32_value(int(v["x"]))
        if x is None:
            return Outcome(False, False)
        overflows = abs(round_bf16(x)) >= pow2(128)
        return Outcome(True, overflows == (abs(x) >= c * pow2(127)))

    infinite = stored == bv(0x7F800000)
    same = infinite == z3.UGE(magnitude_bits(x), threshold)
    return [Goal("threshold", (finite_bits(x),), same, replay)]


@lemma(
    "dead-row",
    "RN(1/l) is finite for l >= 2^-127, so e * RN(1/l) is never NaN for a finite e; with l = 0 the "
    "rule r = 0 gives P = 0. (At l = 2^-128 the reciprocal is infinite and 0 * inf is NaN.)",
    topic="stores",
    used_by=(
        "spec.attention.online:forward",
        "spec.attention.rows:forward",
        "spec.attention.windows:finish",
        "spec.bounds.closed:_delta",
    ),
    constant=pow2(-127), control=pow2(-128),
)  # fmt: skip
def _dead_row(c: Fraction) -> Sequence[Goal]:
    row, e = z3.BitVecs("l e", 32)
    one = z3.FPVal(1.0, FLOAT)
    product = z3.fpMul(RNE, f32(e), z3.fpDiv(RNE, one, f32(row)))
    # RN(1/l) falls as l grows, so the smallest l is the one that counts.
    hypotheses = (row == bv(f32_bits(c)), finite_bits(e))

    def replay(v: Values) -> Outcome:
        row, e = f32_scalar(int(v["l"])), f32_scalar(int(v["e"]))
        with np.errstate(all="ignore"):
            product = e * (np.float32(1) / row)
        return Outcome(F(float(row)) == c and bool(np.isfinite(e)), not np.isnan(product))

    x, y, rx, ry = z3.Reals("x y rx ry")
    falls = Goal("monotone", (x > 0, y >= x, rx * x == 1, ry * y == 1), ry <= rx)
    return [falls, Goal("smallest l", hypotheses, z3.Not(z3.fpIsNaN(product)), replay)]


@lemma(
    "finite-arguments",
    "If |s| <= 2^126 and |b| <= 2^126 then s - b is finite, for every exponent and rescale: "
    "with b = 0 on an empty row no infinity meets another.",
    topic="stores",
    used_by=(
        "spec.attention.online:forward",
        "spec.attention.rows:exponentials",
        "spec.attention.windows:exponentials",
    ),
    constant=pow2(126), control=pow2(127),
)  # fmt: skip
def _finite_arguments(c: Fraction) -> Sequence[Goal]:
    s, b = z3.BitVecs("s b", 32)
    limit = bv(f32_bits(c))
    hypotheses = (z3.ULE(magnitude_bits(s), limit), z3.ULE(magnitude_bits(b), limit))
    difference = z3.fpSub(RNE, f32(s), f32(b))
    finite = z3.Not(z3.Or(z3.fpIsInf(difference), z3.fpIsNaN(difference)))

    def replay(v: Values) -> Outcome:
        s, b = f32_scalar(int(v["s"])), f32_scalar(int(v["b"]))
        with np.errstate(over="ignore"):
            difference = s - b
        inside = abs(F(float(s))) <= c and abs(F(float(b))) <= c
        return Outcome(inside, bool(np.isfinite(difference)))

    return [Goal("finite", hypotheses, finite, replay)]


@lemma(
    "ds-code-bound",
    "|p'| <= 448 and |y| <= 1 imply |RN(p' y)| <= 448: the a-priori dS scale needs no second amax.",
    topic="stores",
    used_by=(
        "spec.attention.casts:by_exponent",
    ),
    constant=1, control=2,
    loose=("product",),
)  # fmt: skip
def _ds_code_bound(c: Fraction) -> Sequence[Goal]:
    p, y, z, m = z3.Real("p"), z3.Real("y"), z3.Real("z"), z3.Int("m")
    size = Goal("product", (mag(p) <= 448, mag(y) <= rat(c)), mag(p * y) <= rat(448 * c))
    # Rounded on the fp32 grid of [256, 512); smaller products round to at most 256.
    hypotheses = (z >= 256, z <= rat(448 * c), z < 512, nearest_even(z * 2**15, m))

    def replay(v: Values) -> Outcome:
        p, y = F(448), F(v["z"]) / 448
        inside = abs(y) <= c and 256 <= v["z"] < 512
        return Outcome(inside, abs(round_f32(p * y)) <= 448)

    return [size, Goal("rounding", hypotheses, m <= 448 * 2**15, replay)]


@lemma(
    "cauchy-schwarz",
    "(sum a b)^2 <= sum a^2 sum b^2; with p^2 = sum a^2, r^2 = sum b^2 one more pair keeps it. The "
    "product of two row norms bounds every dP, so dS has an a-priori scale.",
    topic="stores",
    used_by=(
        "spec.attention.casts:gradient_level",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _cauchy_schwarz(c: Fraction) -> Sequence[Goal]:
    a, b, p, r = z3.Reals("a b p r")
    size, cross = z3.Reals("size cross")  # |dot| and |a b|
    # a and b are sizes here: |a b| = |a| |b|, and squares do not see signs.
    gap = (p * b - r * a) * (p * b - r * a)
    square = Goal("square", (gap >= 0,), 2 * (p * r * a * b) <= p * p * b * b + r * r * a * a)
    pr, mixed, ab2, pr2, cross_term = z3.Reals("pr mixed ab2 pr2 cross_term")
    # dot^2 <= (p r)^2, |dot| |a b| <= p r |a b|, 2 p r |a b| <= mixed: all terms of the claim.
    dot2 = z3.Real("dot2")
    step = Goal(
        "one pair more", (dot2 <= pr2, cross_term <= pr, 2 * pr <= mixed),
        dot2 + 2 * cross_term + ab2 <= pr2 + mixed + ab2,
    )  # fmt: skip
    atom = Goal("atom", (size >= 0, cross >= 0, size <= p * r), size * cross <= p * r * cross)

    def replay(v: Values) -> Outcome:
        a, b = F(v["a"]), F(v["b"])
        return Outcome(True, (a * b) ** 2 <= c * (a * a) * (b * b))

    single = (a * b) * (a * b) <= rat(c) * (a * a) * (b * b)
    return [
        nonnegative_square(),
        square,
        atom,
        step,
        Goal("one pair", (), single, replay, (a == 1, b == 1)),
    ]


@lemma(
    "promotion-step",
    "O' = RN(t s + O) (one fma): |e'| <= |e| + s |t - t*| + u |O'|, so promotion costs u times the "
    "computed partial outputs.",
    topic="stores",
    used_by=(
        "spec.bounds.columns:product_bound",
        "spec.bounds.errors:DOT",
        "spec.ledger.bounds:BOUNDS",
    ),
    constant=1, control=F(1, 2),
    loose=("step",),
)  # fmt: skip
def _promotion_step(c: Fraction) -> Sequence[Goal]:
    error, window, rounding, result = z3.Reals("e window rounding result")
    size_e, size_w = z3.Reals("size_e size_w")
    u = rat(c * U)
    hypotheses = (within(error, size_e), within(window, size_w), within(rounding, u * mag(result)))
    total = within(error + window + rounding, size_e + size_w + u * mag(result))

    x, o, m = z3.Ints("x O m")  # t s = x 2^-13 on a grid that an fp32 product may need
    z = z3.ToReal(o) + z3.ToReal(x) / 2**13
    first = (o >= LOW, o < HIGH, x >= 0, x < 2**24, z < HIGH, nearest_even(z, m))

    def replay(v: Values) -> Outcome:
        x, o = int(v["x"]), int(v["O"])
        exact = F(o) + F(x, 2**13)  # t = x 2^-13, s = 1: both fp32
        result = round_f32(exact)
        inside = is_f32(F(x, 2**13)) and result == int(v["m"]) and exact < HIGH
        return Outcome(inside and rne(exact) == result, abs(result - exact) <= c * U * result)

    fused = within(z3.ToReal(m) - z, u * z3.ToReal(m))
    return [Goal("step", hypotheses, total), Goal("one fma", first, fused, replay)]
