"""Lemmas about block scales: amax/448 and its inverse, tiny amax, powers of two, scale products.

An fp32 significand is an integer A in [2^23, 2^24); in the denormal range everything is counted in
units of 2^-149. Sweeps run the same claims on numpy float32 (the processor's IEEE arithmetic).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import z3

from dmverify.proofs.encode import (
    RTN,
    RTP,
    bv,
    f32,
    f32_bits,
    finite_bits,
    magnitude_bits,
    nearest_even,
    rat,
    within,
)
from dmverify.proofs.exact import U, f32_value, is_f32, pow2, round_f32
from dmverify.proofs.registry import Goal, Outcome, Sweep, Values, lemma

F = Fraction
LOW, HIGH = 2**23, 2**24
ULP_448 = pow2(-15)


def significands() -> np.ndarray:
    """All float32 in [1, 2)."""
    return np.arange(0x3F800000, 0x40000000, dtype=np.uint32).view(np.float32)


def denormal_units(count: int) -> np.ndarray:
    """The float32 n 2^-149 for n in [1, count]."""
    return np.arange(1, count + 1, dtype=np.uint32).view(np.float32)


def sweep_divide(limit: Fraction) -> Sweep:
    """Every significand of amax, at three exponents."""
    failures = 0
    for exponent in (0, -117, 100):
        a = significands() * np.float32(2.0**exponent)
        failures += int((a / (a / np.float32(448)) > np.float32(limit)).sum())
    return Sweep(3 * LOW, failures)


@lemma(
    "scale-divide-range",
    "With s = RN(amax/448) normal, RN(amax/s) <= 448 + 2^-15; it does exceed 448.",
    topic="scaling",
    used_by=(
        "spec.arithmetic.enclosure:Enclosure.scale_down",
        "spec.arithmetic.enclosure_ends:largest_quotient",
        "spec.bounds.errors:CODES",
        "spec.ledger.bounds.constants:SCALED_MAX",
        "spec.scaling.rules:_divide",
    ),
    constant=448 + ULP_448, control=448, sweep=sweep_divide,
)  # fmt: skip
def _scale_divide_range(limit: Fraction) -> Sequence[Goal]:
    a, s = z3.Ints("A S")
    significand = z3.If(8 * a < 7 * HIGH, 8 * z3.ToReal(a) / 7, 4 * z3.ToReal(a) / 7)
    # The quotient is 512 A / S or its equal in the other binade; limit is an fp32 number and the
    # spacing above 448 is 2^-15, so rounding stays below iff the quotient is below the tie, or on
    # it with an even limit.
    units = int(limit / ULP_448)
    ratio = z3.If(8 * a < 7 * HIGH, 2 * a, a) * 256 * 2**16
    tie = s * (2 * units + 1)
    below = ratio <= tie if units % 2 == 0 else ratio < tie

    def replay(v: Values) -> Outcome:
        amax = F(v["A"], LOW)
        scale = round_f32(amax / 448)
        return Outcome(is_f32(amax), round_f32(amax / scale) <= limit)

    hypotheses = (a >= LOW, a < HIGH, nearest_even(significand, s))
    return [Goal("range", hypotheses, below, replay)]


def sweep_inverse(limit: Fraction) -> Sweep:
    """Every significand of amax, at three exponents."""
    failures = 0
    for exponent in (0, -100, 100):
        a = significands() * np.float32(2.0**exponent)
        failures += int((a * (np.float32(448) / a) > np.float32(limit)).sum())
    return Sweep(3 * LOW, failures)


@lemma(
    "scale-inverse-range",
    "With inv = RN(448/amax), RN(amax * inv) <= 448 + 2^-15 for amax >= 2^-100; it exceeds 448.",
    topic="scaling",
    used_by=(
        "spec.scaling.rules:_divide_inverse",
    ),
    constant=448 + ULP_448, control=448, sweep=sweep_inverse,
)  # fmt: skip
def _scale_inverse_range(limit: Fraction) -> Sequence[Goal]:
    a, inverse = z3.Ints("A I")
    # amax = A 2^-23; 448/amax lies in (224, 448], on the grid 2^-16 below 256 and 2^-15 above.
    product = a * inverse
    fine, coarse = 448 * LOW * 2**16, 448 * LOW * 2**15
    nearest_fine = z3.And(a * 256 > 448 * LOW, within(2 * (product - fine), a))
    nearest_coarse = z3.And(a * 256 <= 448 * LOW, within(2 * (product - coarse), a))
    units = int(limit / ULP_448)

    def stays(scaled: z3.ExprRef, per_unit: int) -> z3.ExprRef:
        tie = (2 * units + 1) * per_unit
        return 2 * scaled <= tie if units % 2 == 0 else 2 * scaled < tie

    below = z3.If(a * 256 > 448 * LOW, stays(product, 2 * LOW), stays(product, LOW))

    def replay(v: Values) -> Outcome:
        amax = F(v["A"], LOW)
        inv = round_f32(448 / amax)
        same = inv * (2**16 if inv < 256 else 2**15) == v["I"]
        return Outcome(is_f32(amax) and same, round_f32(amax * inv) <= limit)

    hypotheses = (a >= LOW, a < HIGH, z3.Or(nearest_fine, nearest_coarse))
    guide = (a == int(_inverse_overshoot()),)
    return [Goal("range", hypotheses, below, replay, guide)]


def _inverse_overshoot() -> int:
    """Significand of some amax whose product with its inverse scale exceeds 448."""
    a = significands()
    index = int(np.argmax(a * (np.float32(448) / a) > np.float32(448)))
    return LOW + index


def sweep_zero(c: Fraction) -> Sweep:
    """amax of 1 to 2^16 units of 2^-149."""
    a = denormal_units(2**16)
    zero = a / np.float32(448) == 0
    small = np.arange(1, 2**16 + 1) <= float(c * 32)
    return Sweep(2**16, int((zero != small).sum()))


@lemma(
    "scale-zero",
    "RN(amax/448) is zero exactly when amax <= 7 * 2^-144.",
    topic="scaling",
    used_by=(
        "spec.scaling.rules:_divide",
    ),
    constant=7, control=8, sweep=sweep_zero,
)  # fmt: skip
def _scale_zero(c: Fraction) -> Sequence[Goal]:
    n, s = z3.Ints("n s")

    def replay(v: Values) -> Outcome:
        amax = v["n"] * pow2(-149)
        zero = round_f32(amax / 448) == 0
        return Outcome(v["n"] >= 1, zero == (amax <= c * pow2(-144)))

    hypotheses = (n >= 1, nearest_even(z3.ToReal(n) / 448, s))
    return [Goal("threshold", hypotheses, (s == 0) == (z3.ToReal(n) <= rat(32 * c)), replay)]


def sweep_denormal(c: Fraction) -> Sweep:
    """Every significand in the three binades around the threshold."""
    failures = 0
    for exponent in (-119, -118, -117):
        a = significands() * np.float32(2.0**exponent)
        tiny = a / np.float32(448) < np.float32(2.0**-126)
        failures += int((tiny != (a < float(c) * 2.0**-118)).sum())
    return Sweep(3 * LOW, failures)


@lemma(
    "scale-denormal",
    "RN(amax/448) is denormal or zero (zero under FTZ) exactly when amax < 1.75 * 2^-118.",
    topic="scaling",
    used_by=(
        "spec.bounds.closed:_tiny",
        "spec.bounds.errors:DENORMAL",
        "spec.ledger.bounds:_CODE",
        "spec.ledger.bounds.constants:SCALE_DENORMAL",
        "spec.scaling.rules:_divide",
    ),
    constant=F(7, 4), control=F(7, 8), sweep=sweep_denormal,
)  # fmt: skip
def _scale_denormal(c: Fraction) -> Sequence[Goal]:
    a, e, s = z3.Ints("A e S")
    cases = [
        z3.And(e == k, nearest_even(z3.ToReal(a) * rat(pow2(k - 23 + 149) / 448), s))
        for k in (-119, -118)
    ]
    below = z3.Or(
        *(z3.And(e == k, z3.ToReal(a) < rat(c * pow2(-118 - k + 23))) for k in (-119, -118))
    )

    def replay(v: Values) -> Outcome:
        amax = v["A"] * pow2(int(v["e"]) - 23)
        tiny = round_f32(amax / 448) < pow2(-126)
        return Outcome(is_f32(F(amax)), tiny == (amax < c * pow2(-118)))

    hypotheses = (a >= LOW, a < HIGH, z3.Or(*cases))
    return [Goal("threshold", hypotheses, (s < LOW) == below, replay)]


def sweep_overshoot(c: Fraction) -> Sweep:
    """amax of 225 to 2^22 units of 2^-149."""
    a = denormal_units(2**22)[224:]
    return Sweep(len(a), int((a / (a / np.float32(448)) > float(c)).sum()))


@lemma(
    "scale-tiny-overshoot",
    "With s = RN(amax/448) denormal but not zero, RN(amax/s) reaches 671 and no more: saturate.",
    topic="scaling",
    used_by=(
        "spec.arithmetic.enclosure:Enclosure.scale_down",
        "spec.arithmetic.enclosure_ends:largest_quotient",
        "spec.bounds.closed:_tiny",
        "spec.scaling.rules:_divide",
    ),
    constant=671, control=670, sweep=sweep_overshoot,
)  # fmt: skip
def _scale_tiny_overshoot(c: Fraction) -> Sequence[Goal]:
    n, s = z3.Ints("n s")

    def replay(v: Values) -> Outcome:
        amax = v["n"] * pow2(-149)
        scale = round_f32(amax / 448)
        return Outcome(v["n"] > 224 and scale > 0, round_f32(amax / scale) <= c)

    hypotheses = (n > 224, nearest_even(z3.ToReal(n) / 448, s))
    return [Goal("range", hypotheses, z3.ToReal(n) <= rat(c) * z3.ToReal(s), replay)]


@lemma(
    "flush-to-zero",
    "Flushing a rounded result below 2^-126 to zero errs by at most 2^-126.",
    topic="scaling",
    used_by=(
        "spec.bounds.closed:_tiny",
        "spec.ledger.bounds.constants:FLUSH",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _flush_to_zero(c: Fraction) -> Sequence[Goal]:
    z, m = z3.Real("z"), z3.Int("m")  # units of 2^-149
    flushed = z3.And(m < LOW, -m < LOW)

    def replay(v: Values) -> Outcome:
        x = v["z"] * pow2(-149)
        return Outcome(abs(round_f32(F(x))) < pow2(-126), abs(x) <= c * pow2(-126))

    return [Goal("error", (nearest_even(z, m), flushed), within(z, rat(c * LOW)), replay)]


@lemma(
    "rn-equivariance",
    "RN(2z) = 2 RN(z) for 2^-126 <= |z| < 2^-125, and by scaling for every larger z: rounding "
    "commutes with powers of two above the subnormals.",
    topic="scaling",
    used_by=(
        "spec.attention.casts:by_exponent",
        "spec.scaling.rules:_power",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _rn_equivariance(c: Fraction) -> Sequence[Goal]:
    z = z3.Real("z")  # units of 2^-149
    m, d = z3.Ints("m d")
    doubled = z3.If(2 * z >= HIGH, nearest_even(z, d), nearest_even(2 * z, d))
    value = z3.If(2 * z >= HIGH, 2 * d, d)

    def replay(v: Values) -> Outcome:
        x = v["z"] * pow2(-149)
        inside = c * pow2(-126) <= x < pow2(-125)
        return Outcome(inside, round_f32(F(2 * x)) == 2 * round_f32(F(x)))

    hypotheses = (z >= rat(c * LOW), z < HIGH, nearest_even(z, m), doubled)
    return [Goal("double", hypotheses, value == 2 * m, replay)]


@lemma(
    "rescale-exact",
    "Halving is exact for |x| >= 2^-125, so a rescale by 2^-k is exact until it enters the "
    "subnormals.",
    topic="scaling",
    used_by=(
        "spec.attention.windows:advance",
    ),
    constant=pow2(-125), control=pow2(-126),
)  # fmt: skip
def _rescale_exact(low: Fraction) -> Sequence[Goal]:
    x = z3.BitVec("x", 32)
    half = z3.FPVal(0.5, z3.Float32())
    exact = z3.fpEQ(z3.fpMul(RTP, f32(x), half), z3.fpMul(RTN, f32(x), half))
    hypotheses = (finite_bits(x), z3.UGE(magnitude_bits(x), bv(f32_bits(low))))

    def replay(v: Values) -> Outcome:
        x = f32_value(int(v["x"]))
        return Outcome(x is not None and abs(x) >= low, x is not None and is_f32(x / 2))

    return [Goal("halve", hypotheses, exact, replay)]


@lemma(
    "two-roundings",
    "Barring underflow RN(x RN(y)) is within (2u + u^2)|x y|: a product with one scalar per tile, "
    "RN(acc RN(sq sk)), or with a rounded reciprocal that is itself exact to u.",
    topic="scaling",
    used_by=(
        "spec.attention.unspecified_order:widen_output",
        "spec.bounds.closed:gradient_row",
        "spec.bounds.residual:_elem",
        "spec.bounds.residual:_quotient",
        "spec.ledger.bounds:BOUNDS",
    ),
    constant=2, control=1,
)  # fmt: skip
def _two_roundings(c: Fraction) -> Sequence[Goal]:
    x, y, z = z3.Reals("exact once twice")
    hypotheses = (x > 0, within(y - x, rat(U) * x), within(z - y, rat(U) * y))

    def replay(v: Values) -> Outcome:
        x, y, z = F(v["exact"]), F(v["once"]), F(v["twice"])
        model = x > 0 and abs(y - x) <= U * x and abs(z - y) <= U * y
        return Outcome(model, abs(z - x) <= (c * U + U**2) * x)

    return [Goal("error", hypotheses, within(z - x, rat(c * U + U**2) * x), replay)]
