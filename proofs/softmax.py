"""Lemmas about the softmax path: scale constant, maxima, rescales, normaliser, LSE, stores.

Transcendental constants enter as rational enclosures. What ex2, lg2 and rcp.approx do is not proved
here: that is measured, see ``certificates``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import z3

from dmverify.proofs.encode import (
    RNE,
    bv,
    e4m3_bits,
    f32,
    f32_bits,
    finite_bits,
    mag,
    nearest_even,
    nonnegative_square,
    rat,
    within,
)
from dmverify.proofs.exact import (
    U,
    f32_scalar,
    f32_value,
    is_f32,
    pow2,
    rne,
    round_e4m3,
    round_f32,
)
from dmverify.proofs.registry import Goal, Outcome, Sweep, Values, lemma

F = Fraction
LOW, HIGH = 2**23, 2**24
FLOAT = z3.Float32()
# Enclosures to 2^-100 and better; the tests hold them against ball arithmetic.
LOG2_E = (F("1.4426950408889634073599246810018921"), F("1.4426950408889634073599246810018922"))
LN_2 = (F("0.6931471805599453094172321214581765"), F("0.6931471805599453094172321214581766"))
LOG2_E_F32 = 12102203  # RN32(log2 e) in units of 2^-23
LN_2_F32 = 11629080  # RN32(ln 2) in units of 2^-24


def sweep_constant(c: Fraction) -> Sweep:
    """Every significand of the softmax scale, in exact integers."""
    a = np.arange(LOW, HIGH, dtype=np.int64)
    product = a * LOG2_E_F32
    shift = np.where(product >= 2**47, 24, 23)
    rounded = (
        (product + (np.int64(1) << (shift - 1)) - 1 + ((product >> shift) & 1)) >> shift
    ) << shift
    drift = a.astype(np.float64) * float(LOG2_E_F32 - LOG2_E[0] * LOW)
    error = np.abs((rounded - product) + drift)
    limit = float(c * U) * product.astype(np.float64) * (1 - 2.0**-40)
    return Sweep(len(a), int((error > limit).sum()))


@lemma(
    "softmax-constant",
    "c = RN(scale * RN(log2 e)) is within (5/4) u of scale * log2 e, relative.",
    topic="softmax",
    used_by=(
        "proofs.arguments:_ex2_argument",
        "proofs.arguments:_ex2_argument_fused",
    ),
    constant=F(5, 4), control=1, sweep=sweep_constant,
)  # fmt: skip
def _softmax_constant(c: Fraction) -> Sequence[Goal]:
    a, m, exact = z3.Int("A"), z3.Int("m"), z3.Real("exact")  # exact = A 2^23 log2 e
    product = a * LOG2_E_F32
    rounded = z3.If(
        product >= 2**47,
        nearest_even(z3.ToReal(product) / 2**24, m),
        nearest_even(z3.ToReal(product) / 2**23, m),
    )
    result = z3.If(product >= 2**47, z3.ToReal(m) * 2**24, z3.ToReal(m) * 2**23)
    hypotheses = (
        a >= LOW, a < HIGH, rounded,
        exact >= z3.ToReal(a) * rat(LOG2_E[0] * LOW), exact <= z3.ToReal(a) * rat(LOG2_E[1] * LOW),
    )  # fmt: skip

    def replay(v: Values) -> Outcome:
        scale = F(int(v["A"]), LOW)
        c32 = round_f32(scale * F(LOG2_E_F32, LOW))
        error = max(abs(c32 - scale * end) for end in LOG2_E)
        return Outcome(is_f32(scale), error <= c * U * scale * LOG2_E[0])

    return [Goal("error", hypotheses, within(result - exact, rat(c * U) * exact), replay)]


@lemma(
    "max-argument",
    "b = RN(m - 8): the row maximum's exponent m - b is within 2^-5 of 8 for |m - 8| < 2^20, "
    "not exactly 8.",
    topic="softmax",
    used_by=(
        "proofs.softmax:_max_code_256",
        "spec.attention.windows:references",
        "spec.ledger.bounds.constants:SMALL_RESIDUE",
    ),
    constant=pow2(-5), control=pow2(-6),
)  # fmt: skip
def _max_argument(c: Fraction) -> Sequence[Goal]:
    m, n = z3.Real("m"), z3.Int("n")
    grids = [
        z3.And(mag(m - 8) >= rat(pow2(e)), mag(m - 8) < rat(pow2(e + 1)),
               nearest_even((m - 8) * rat(pow2(23 - e)), n))
        for e in range(14, 20)
    ]  # fmt: skip
    residue = z3.Real("residue")
    values = [residue == m - 8 - z3.ToReal(n) * rat(pow2(e - 23)) for e in range(14, 20)]
    cases = z3.Or(*(z3.And(grid, value) for grid, value in zip(grids, values, strict=True)))
    # Below 2^14 the error is at most u 2^14.
    small = z3.And(mag(m - 8) < rat(pow2(14)), within(residue, rat(pow2(-10))))

    def replay(v: Values) -> Outcome:
        b = round_f32(F(v["m"]) - 8)
        return Outcome(abs(F(v["m"]) - 8) < pow2(20), abs(F(v["m"]) - b - 8) <= c)

    return [Goal("residue", (z3.Or(cases, small),), within(residue, rat(c)), replay)]


def sweep_code_256(c: Fraction) -> Sweep:
    """All float32 in the claimed interval: E4M3 steps by 16 below 256 and by 32 above."""
    bits = np.arange(f32_bits(256 - c), f32_bits(272) + 1, dtype=np.uint32)
    x = bits.view(np.float32).astype(np.float64)
    step = np.where(x < 256, 16.0, 32.0)
    return Sweep(len(bits), int((np.rint(x / step) * step != 256).sum()))


@lemma(
    "max-code-256",
    "Every value in [256 - 8, 272] rounds to 256, so the row maximum codes as exactly 256 when its "
    "exponent is within 2^-5 of 8 (2^(1/32) <= 17/16 and 2^(-1/32) >= 31/32 as (17/16)^32 >= 2 and "
    "(31/32)^32 <= 1/2).",
    topic="softmax", rests_on=("max-argument",),
    used_by=(
        "spec.attention.windows:references",
        "spec.ledger.bounds.softmax:window_unit",
        "spec.ledger.bounds:_WINDOW",
    ),
    constant=8, control=16, sweep=sweep_code_256,
    tightened=lambda: [_coded_256(F(8), F(273))],
)  # fmt: skip
def _max_code_256(c: Fraction) -> Sequence[Goal]:
    up, down = rat(F(17, 16)), rat(F(31, 32))
    for _ in range(5):  # to the 32nd power, by squaring
        up, down = up * up, down * down
    return [_coded_256(c, F(272)), Goal("roots of two", (), z3.And(up >= 2, 2 * down <= 1))]


def _coded_256(c: Fraction, top: Fraction) -> Goal:
    """All float32 of [256 - c, top] have the code of 256."""
    x = z3.BitVec("x", 32)
    hypotheses = (z3.UGE(x, bv(f32_bits(256 - c))), z3.ULE(x, bv(f32_bits(top))))

    def replay(v: Values) -> Outcome:
        x = f32_value(int(v["x"]))
        if x is None:
            return Outcome(False, False)
        return Outcome(256 - c <= x <= top, round_e4m3(x) == 256)

    return Goal("code", hypotheses, e4m3_bits(x) == bv(f32_bits(256)), replay)


HALVINGS = 10


def chord_goals(c: Fraction) -> list[Goal]:
    """(1 + c h)^(2^10) >= 2 at h = 2^-10, by squarings rounded down to 64 bits."""
    lower, goals = 1 + c * pow2(-HALVINGS), []
    for step in range(HALVINGS):
        after = F(lower * lower * 2**64 // 1, 2**64)
        goals.append(Goal(f"squaring {step}", (), rat(lower) * rat(lower) >= rat(after)))
        lower = after
    h = z3.Real("h")

    def replay(v: Values) -> Outcome:
        return Outcome(v["h"] == pow2(-HALVINGS), (1 + c * F(v["h"])) ** 2**HALVINGS >= 2)

    return [*goals, Goal("end of the chord", (h == rat(pow2(-10)),), rat(lower) >= 2, replay)]


@lemma(
    "exp2-chord",
    "|2^t - 1| <= 0.6935 |t| for |t| <= 2^-10 (ln 2 = 0.69314...): true at 0 and 2^-10, kept by "
    "midpoints, hence at all dyadic t, by continuity at all; negative t by 2^-t 2^t = 1.",
    topic="softmax",
    used_by=(
        "spec.ledger.bounds:_SOFTMAX",
        "spec.ledger.bounds.constants:EXP2_CHORD",
    ),
    constant=F(1387, 2000), control=F(693, 1000),
    loose=("midpoint", "negative", *(f"squaring {step}" for step in range(HALVINGS))),
)  # fmt: skip
def _exp2_chord(c: Fraction) -> Sequence[Goal]:
    a, b, x, y, z = z3.Reals("a b x y z")  # x = 2^a, y = 2^b, z = 2^((a+b)/2)
    k = rat(c)
    gap = (x - y) * (x - y)
    square = Goal("square", (gap >= 0, z * z == x * y), 4 * z * z <= (x + y) * (x + y))
    root = Goal("root", (a > 0, b > 0, b * b >= a * a), a <= b)
    chord = Goal(
        "midpoint", (2 * z <= x + y, x <= 1 + k * a, y <= 1 + k * b), 2 * z <= 2 + k * (a + b)
    )
    negative = Goal("negative", (a >= 0, x >= 1, x <= 1 + k * a, x * y == 1), y >= 1 - k * a)
    return [nonnegative_square(), square, root, chord, negative, *chord_goals(c)]


@lemma(
    "alpha-at-most-one",
    "If the old maximum is at most the new one, RN(old - new) <= 0: a running rescale "
    "ex2(old - new) never exceeds ex2(0) = 1.",
    topic="softmax",
    used_by=(
        "spec.attention.windows:advance",
    ),
    constant=1, control=2,
)  # fmt: skip
def _alpha_at_most_one(c: Fraction) -> Sequence[Goal]:
    a, b = z3.BitVecs("old new", 32)
    old, new = f32(a), f32(b)
    scaled = z3.fpMul(RNE, z3.FPVal(float(c), FLOAT), new)
    hypotheses = (finite_bits(a), finite_bits(b), z3.fpLEQ(old, scaled))

    def replay(v: Values) -> Outcome:
        old, new = f32_scalar(int(v["old"])), f32_scalar(int(v["new"]))
        with np.errstate(over="ignore"):
            inside = bool(np.isfinite(old) and np.isfinite(new) and old <= np.float32(c) * new)
            return Outcome(inside, bool(old - new <= 0))

    zero = z3.FPVal(0.0, FLOAT)
    return [Goal("sign", hypotheses, z3.fpLEQ(z3.fpSub(RNE, old, new), zero), replay)]


@lemma(
    "stale-maximum",
    "With a reference R that moves to ceil(b) only when b > R + 32, b - R <= 32 always, so "
    "2^(b - R) <= 2^32; and every move is by an integer, an exact power of two.",
    topic="softmax",
    used_by=(
        "spec.arithmetic.enclosure:Enclosure.exp2",
        "spec.attention.windows:advance",
        "spec.bounds.errors:RESCALE_THRESHOLD",
        "spec.ledger.bounds.constants:RESCALE_THRESHOLD",
        "spec.ledger.bounds.premises:PREMISES",
        "spec.ledger.bounds:_WINDOW",
    ),
    constant=32, control=16,
)  # fmt: skip
def _stale_maximum(c: Fraction) -> Sequence[Goal]:
    b, before, after = z3.Real("b"), z3.Int("R"), z3.Int("Rnew")
    moved = b > z3.ToReal(before) + 32
    ceiling = z3.And(z3.ToReal(after) >= b, z3.ToReal(after) < b + 1)
    rule = z3.And(z3.Implies(moved, ceiling), z3.Implies(z3.Not(moved), after == before))

    def replay(v: Values) -> Outcome:
        b, before = F(v["b"]), int(v["R"])
        after = -(-b // 1) if b > before + 32 else before
        return Outcome(after == v["Rnew"], b - after <= c and after >= before)

    conclusion = z3.And(b - z3.ToReal(after) <= rat(c), after >= before)
    return [Goal("step", (rule,), conclusion, replay)]


@lemma(
    "lse-store",
    "LSE = RN(RN(M + g) RN(ln 2)) with g the computed lg2(l): relative error of the last two steps "
    "and the constant at most (17/8) u of |M + g| ln 2.",
    topic="softmax",
    used_by=(
        "spec.attention.shared_steps:with_mean",
        "spec.attention.unspecified_order:widen_lse",
        "spec.bounds.closed:_lse",
    ),
    constant=F(17, 8), control=F(17, 16),
)  # fmt: skip
def _lse_store(c: Fraction) -> Sequence[Goal]:
    x, y, w, exact = z3.Reals("x y w exact")
    factor = rat(F(LN_2_F32, HIGH))
    u = rat(U)
    hypotheses = (
        x >= 1, x <= 2, within(y - x, u * x), within(w - y * factor, u * (y * factor)),
        exact >= x * rat(LN_2[0]), exact <= x * rat(LN_2[1]),
    )  # fmt: skip

    def replay(v: Values) -> Outcome:
        x, y, w = F(v["x"]), F(v["y"]), F(v["w"])
        factor = F(LN_2_F32, HIGH)
        inside = abs(y - x) <= U * x and abs(w - y * factor) <= U * y * factor
        error = max(abs(w - x * end) for end in LN_2)
        return Outcome(inside, error <= c * U * x * LN_2[1])

    guide = (y == x * rat(1 + U), w == y * factor * rat(1 + U))
    return [Goal("error", hypotheses, within(w - exact, rat(c * U) * exact), replay, guide)]


def sweep_reciprocal(c: Fraction) -> Sweep:
    """Every significand; the product of two 24-bit integers is exact in int64."""
    row = np.arange(0x3F800000, 0x40000000, dtype=np.uint32).view(np.float32)
    r = np.float32(1) / row
    product = (row.astype(np.float64) * 2**23).astype(np.int64)
    product *= (r.astype(np.float64) * 2**24).astype(np.int64)
    return Sweep(len(row), int((np.abs(product - 2**47) > float(c) * 2**23).sum()))


@lemma(
    "reciprocal-error",
    "r = RN(1/l): |r l - 1| <= u for 2^-126 <= l <= 2^126.",
    topic="softmax",
    used_by=(
        "spec.attention.unspecified_order:widen_output",
        "spec.bounds.errors:Errors.probability",
        "spec.ledger.bounds:BOUNDS",
    ),
    constant=1, control=F(1, 2), sweep=sweep_reciprocal,
)  # fmt: skip
def _reciprocal(c: Fraction) -> Sequence[Goal]:
    a, r = z3.Ints("A R")  # l = A 2^-23 in (1, 2), r = R 2^-24; l = 1 is exact
    hypotheses = (a > LOW, a < HIGH, within(2 * (a * r - 2**47), a))

    def replay(v: Values) -> Outcome:
        row = F(int(v["A"]), LOW)
        r = round_f32(1 / row)
        same = r == F(int(v["R"]), HIGH) and is_f32(row)
        return Outcome(same, abs(r * row - 1) <= c * U)

    scaled = c.denominator * (a * r - 2**47)
    guide = (a == _worst_reciprocal(),)
    return [
        Goal("error", hypotheses, within(scaled, z3.IntVal(c.numerator * 2**23)), replay, guide)
    ]


def _worst_reciprocal() -> int:
    """A significand whose rounded reciprocal errs by more than u/2."""
    for a in range(HIGH - 1, LOW, -1):
        if abs(rne(F(2**47, a)) * a - 2**47) > 2**22:
            return a
    raise AssertionError("no significand errs by more than u/2")
