"""Lemmas about fp32 rounding and sums: one rounding, chains, trees, any length.

A rounding is scaled into one binade, where the fp32 grid is the integers [2^23, 2^24). Statements
about sums of any length are induction steps over error bounds; where a step is nonlinear its
products appear as atoms, and each fact about atoms that it uses is a goal of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import z3

from dmverify.proofs.encode import (
    RNE,
    RTN,
    RTP,
    exact_difference,
    f32,
    finite_bits,
    mag,
    nearest_even,
    rat,
    within,
)
from dmverify.proofs.exact import U, f32_value, is_f32, pow2, round_f32
from dmverify.proofs.registry import Expr, Goal, Outcome, Values, lemma

F = Fraction
LOW, HIGH = 2**23, 2**24
FLOAT = z3.Float32()


@lemma(
    "rn-error",
    "|RN(z) - z| <= u |z| and <= u |RN(z)| for 2^-126 <= |z| < 2^128 - 2^103, u = 2^-24.",
    topic="sums",
    used_by=(
        "conformance.bounds:SUMS",
        "conformance.tomography.allowance:U",
        "proofs.dominated:_sum_dominated",
        "spec.arithmetic.enclosure_dot:U",
        "spec.arithmetic.enclosure_ends:_largest_of",
        "spec.arithmetic.enclosure_softmax:share_ends",
        "spec.attention.unspecified_order:widen_exponent",
        "spec.attention.unspecified_order:widen_ds",
        "spec.attention.keys:sum_error",
        "spec.bounds.closed:_delta_from_rows",
        "spec.bounds.closed:_lse",
        "spec.bounds.errors:Errors.exponent",
        "spec.bounds.errors:Errors.probability",
        "spec.bounds.norms:U",
        "spec.bounds.premises:PREMISES",
        "spec.ledger.bounds.constants:U",
        "spec.ledger.bounds:BOUNDS",
        "spec.ledger.bounds:_SUM",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _rn_error(c: Fraction) -> Sequence[Goal]:
    z, m = z3.Real("z"), z3.Int("m")
    hypotheses = (z >= LOW, z < HIGH, nearest_even(z, m))
    error = z3.ToReal(m) - z
    bounded = z3.And(within(error, rat(c * U) * z), within(error, rat(c * U) * z3.ToReal(m)))

    def replay(v: Values) -> Outcome:
        z = F(v["z"])
        r = round_f32(z)
        limit = c * U * min(z, r)
        return Outcome(r == v["m"] and LOW <= z < HIGH, abs(r - z) <= limit)

    return [Goal("error", hypotheses, bounded, replay)]


@lemma(
    "rn-error-subnormal",
    "|RN(z) - z| <= 2^-150 for |z| <= 2^-126 (gradual underflow).",
    topic="sums",
    used_by=(
        "spec.arithmetic.enclosure_dot:fp32_dot",
        "spec.arithmetic.enclosure_ends:_largest_of",
        "spec.arithmetic.enclosure_open:bf16_dot",
        "spec.arithmetic.interval:SMALLEST",
        "spec.attention.unspecified_order:widen_scaled",
        "spec.bounds.closed:_tiny",
        "spec.bounds.errors:UNDERFLOW_ERROR",
        "spec.bounds.residual:_underflow",
        "spec.ledger.bounds:BOUNDS",
        "spec.ledger.bounds:_SUM",
        "spec.ledger.bounds.constants:UNDERFLOW_ERROR",
    ),
    constant=pow2(-150), control=pow2(-151),
)  # fmt: skip
def _rn_error_subnormal(eta: Fraction) -> Sequence[Goal]:
    z, m = z3.Real("z"), z3.Int("m")  # units of 2^-149
    hypotheses = (within(z, rat(LOW)), nearest_even(z, m))

    def replay(v: Values) -> Outcome:
        x = v["z"] * pow2(-149)
        return Outcome(abs(x) <= pow2(-126), abs(round_f32(F(x)) - x) <= eta)

    return [Goal("error", hypotheses, within(z3.ToReal(m) - z, rat(eta / pow2(-149))), replay)]


@lemma(
    "rn-candidate",
    "For a float a and any real x, |RN(a + x) - (a + x)| <= |x|: a itself is a candidate.",
    topic="sums",
    used_by=(
        "proofs.dominated:_sum_dominated",
        "proofs.sums:_sum_any_tree",
        "proofs.sums:_sum_fma_chain",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _rn_candidate(c: Fraction) -> Sequence[Goal]:
    # z = m + f in [2^23, 2^24) with the integer m nearest. A float a is the integer m + j, or lies
    # t below the bottom 2^23 = m + j of the binade. Ties play no part.
    f, t, j = z3.Real("f"), z3.Real("t"), z3.Int("j")
    nearest = within(2 * f, rat(1))
    away = f - z3.ToReal(j)

    def replay(v: Values) -> Outcome:
        f, j, middle = F(v["f"]), int(v["j"]), 2**23 + 2**22
        z, a = middle + f, F(middle + j)
        inside = abs(f) <= F(1, 2) and LOW <= a < HIGH
        return Outcome(inside, abs(round_f32(z) - z) <= c * abs(z - a))

    below = z3.And(f <= rat(c) * (away + t), -f <= rat(c) * (away + t))
    return [
        Goal("same grid", (nearest,), mag(f) <= rat(c) * mag(away), replay, (j != 0, mag(f) > 0)),
        Goal("finer grid", (nearest, t >= 0, away >= 0), below),
    ]


@lemma(
    "add-no-underflow",
    "A sum or difference of two floats is exact when it is below 2^-125 in size: addition has no "
    "underflow error.",
    topic="sums",
    used_by=(
        "spec.arithmetic.enclosure_ends:any_order",
        "spec.attention.keys:sum_error",
    ),
    constant=pow2(-125), control=pow2(-124),
)  # fmt: skip
def _add_no_underflow(limit: Fraction) -> Sequence[Goal]:
    a, b = z3.BitVecs("a b", 32)
    x, y = f32(a), f32(b)
    total = z3.fpAbs(z3.fpAdd(RTP, x, y))
    small = z3.fpLT(total, z3.FPVal(float(limit), FLOAT))
    exact = z3.fpEQ(z3.fpAdd(RTP, x, y), z3.fpAdd(RTN, x, y))

    def replay(v: Values) -> Outcome:
        a, b = f32_value(int(v["a"])), f32_value(int(v["b"]))
        if a is None or b is None:
            return Outcome(False, False)
        return Outcome(abs(a + b) < limit, is_f32(a + b))

    return [Goal("exact", (finite_bits(a), finite_bits(b), small), exact, replay)]


@lemma(
    "sterbenz",
    "If y/2 <= x <= 2y then x - y is exact.",
    topic="sums",
    used_by=(
        "spec.formats.rounding:_nearest_by_addition",
    ),
    constant=F(1, 2), control=F(1, 4),
)  # fmt: skip
def _sterbenz(c: Fraction) -> Sequence[Goal]:
    a, b = z3.BitVecs("x y", 32)
    x, y = f32(a), f32(b)
    small, two = z3.FPVal(float(c), FLOAT), z3.FPVal(2.0, FLOAT)
    hypotheses = (
        finite_bits(a), finite_bits(b), z3.fpGT(y, z3.FPVal(2.0**-120, FLOAT)),
        z3.fpLEQ(z3.fpMul(RNE, small, y), x), z3.fpLEQ(x, z3.fpMul(RNE, two, y)),
    )  # fmt: skip

    def replay(v: Values) -> Outcome:
        x, y = f32_value(int(v["x"])), f32_value(int(v["y"]))
        if x is None or y is None:
            return Outcome(False, False)
        return Outcome(y > pow2(-120) and c * y <= x <= 2 * y, is_f32(x - y))

    return [Goal("exact", hypotheses, exact_difference(x, y), replay)]


def _two_floats(c: Fraction) -> Goal:
    """The case n = 2 on the fp32 grid: RN(a + b) for a in [2^23, 2^24), b a multiple of 1/2."""
    a, b, m = z3.Ints("a b m")
    z = z3.ToReal(a) + z3.ToReal(b) / 2
    hypotheses = (a >= LOW, a < HIGH, b >= 0, b <= LOW, z < HIGH, nearest_even(z, m))

    def replay(v: Values) -> Outcome:
        a, b = np.float32(int(v["a"])), np.float32(int(v["b"]) / 2)
        exact = F(int(v["a"])) + F(int(v["b"]), 2)
        same = F(float(a)) + F(float(b)) == exact
        return Outcome(same, abs(F(float(a + b)) - exact) <= c * U * exact)

    return Goal("two floats", hypotheses, within(z3.ToReal(m) - z, rat(c * U) * z), replay)


@lemma(
    "sum-any-tree",
    "An fp32 sum of n numbers in any order errs by at most (n - 1) u sum |x|, any n: joining "
    "subtrees of n1 and n2 numbers keeps the bound.",
    topic="sums", rests_on=("rn-candidate",),
    used_by=(
        "proofs.dominated:_sum_dominated",
        "conformance.bounds:SUMS",
        "spec.arithmetic.enclosure_ends:any_order",
        "spec.arithmetic.enclosure_softmax:share_ends",
        "spec.bounds.errors:SUMS",
        "spec.ledger.bounds:_SUM",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _sum_any_tree(c: Fraction) -> Sequence[Goal]:
    a1, a2 = z3.Reals("A1 A2")
    # Atoms: Xij = (n_i - 1) A_j, all non-negative.
    x11, x12, x21, x22 = z3.Reals("X11 X12 X21 X22")
    s1, s2, e1, e2, rounding = z3.Reals("S1 S2 e1 e2 rounding")
    u = rat(U)
    hypotheses = (
        *(x >= 0 for x in (a1, a2, x11, x12, x21, x22)),
        within(s1, a1), within(s2, a2), within(e1, rat(c) * u * x11), within(e2, rat(c) * u * x22),
        within(rounding, u * mag(s1 + e1 + s2 + e2)),
        within(rounding, mag(s1 + e1)), within(rounding, mag(s2 + e2)),
    )  # fmt: skip
    target = rat(c) * u * (x11 + x21 + a1 + x12 + x22 + a2)  # (n1 + n2 - 1)(A1 + A2)
    total = within(e1 + e2 + rounding, target)
    small = (a2 <= u * a1, x22 <= u * x21)
    both = (a2 >= u * a1, a1 >= u * a2, x12 >= u * x11, x21 >= u * x22)
    return [
        _atom_goal(), Goal("one side small", (*hypotheses, *small), total),
        Goal("both large", (*hypotheses, *both), total), _two_floats(c),
    ]  # fmt: skip


def _atom_goal() -> Goal:
    """What the cases use about atoms: y >= u z implies k y >= u k z for k >= 0."""
    k, y, z = z3.Reals("k y z")
    return Goal("atoms", (k >= 0, y - rat(U) * z >= 0), k * y - rat(U) * (k * z) >= 0)


@lemma(
    "sum-fma-chain",
    "A chain of n fused multiply-adds errs by at most n u sum |x y| + n 2^-150, n <= 2^24 (any n "
    "where no result is subnormal): one more step keeps the bound.",
    topic="sums", rests_on=("rn-candidate",),
    used_by=(
        "conformance.bounds:SUMS",
        "spec.arithmetic.enclosure_dot:fp32_dot",
        "spec.arithmetic.enclosure_ends:any_order",
        "spec.arithmetic.enclosure_open:bf16_dot",
        "spec.bounds.columns:product_bound",
        "spec.bounds.errors:SUMS",
        "spec.bounds.premises:PREMISES",
        "spec.ledger.bounds.premises:PREMISES",
        "spec.ledger.bounds:_SUM",
    ),
    constant=1, control=F(1, 2),
    loose=("subnormal result",), tightened=lambda: _chain_steps(F(1), F(1, 2))[2:],
)  # fmt: skip
def _sum_fma_chain(c: Fraction) -> Sequence[Goal]:
    return [_atom_goal(), *_chain_steps(c, F(1)), _one_product(c)]


def _chain_steps(c: Fraction, underflow: Fraction) -> list[Goal]:
    """One fused step more; a step adds that share of eta to the bound."""
    a, x_abs, s, x, e, rounding = z3.Reals("A xabs S x e rounding")
    ka, kx, eta, k_eta = z3.Reals("kA kx eta keta")  # atoms (k - 1) A, (k - 1)|x|, (k - 1) eta
    u = rat(U)
    hypotheses = (
        a >= 0, x_abs >= 0, ka >= 0, kx >= 0, eta >= 0, k_eta >= 0, within(s, a), x_abs == mag(x),
        within(e, rat(c) * u * ka + k_eta), within(rounding, x_abs),
    )  # fmt: skip
    total = within(e + rounding, rat(c) * u * (ka + a + kx + x_abs) + k_eta + rat(underflow) * eta)
    normal = within(rounding, u * mag(s + e + x))
    # u (k - 1) eta <= eta as n <= 2^24; with eta = 0 there is no such limit.
    large = (normal, x_abs >= u * a, kx >= u * ka, u * k_eta <= eta)
    return [
        Goal("small term", (*hypotheses, normal, x_abs <= u * a), total),
        Goal("large term", (*hypotheses, *large), total),
        Goal("subnormal result", (*hypotheses, within(rounding, eta)), total),
    ]


def _one_product(c: Fraction) -> Goal:
    """The case n = 1 on the fp32 grid: RN of a product of two 12-bit and 13-bit integers."""
    x, m = z3.Int("x"), z3.Int("m")
    factor = 2**12 + 1
    z = z3.ToReal(x * factor) / 2
    hypotheses = (x >= 2**11, x < 2**13, z >= LOW, z < HIGH, nearest_even(z, m))

    def replay(v: Values) -> Outcome:
        exact = F(int(v["x"]) * factor, 2)
        got = np.float32(int(v["x"])) * np.float32(factor / 2)
        return Outcome(LOW <= exact < HIGH, abs(F(float(got)) - exact) <= c * U * exact)

    return Goal("one product", hypotheses, within(z3.ToReal(m) - z, rat(c * U) * z), replay)


def _height(name: str, unit: Fraction, c: Fraction) -> Goal:
    """One level of a tree: growth g on both sides becomes g (1 + c unit)."""
    a1, a2, g1, g2 = z3.Reals("A1 A2 gA1 gA2")  # atoms g A_i, g >= 1
    s1, s2, e1, e2, rounding = z3.Reals("S1 S2 e1 e2 rounding")
    hypotheses = (
        a1 >= 0, a2 >= 0, g1 >= a1, g2 >= a2, within(s1, a1), within(s2, a2),
        within(e1, g1 - a1), within(e2, g2 - a2),
        within(rounding, rat(unit) * mag(s1 + e1 + s2 + e2)),
    )  # fmt: skip
    bound = rat(1 + c * unit) * (g1 + g2) - (a1 + a2)
    return Goal(name, hypotheses, within(e1 + e2 + rounding, bound))


@lemma(
    "sum-tree-height",
    "Rounded products summed by a tree of height h err by at most ((1 + u)^(h+1) - 1) sum |x y|: "
    "one more level multiplies the growth by 1 + u.",
    topic="sums",
    used_by=(
        "spec.ledger.bounds:_SUM",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _sum_tree_height(c: Fraction) -> Sequence[Goal]:
    return [_height("one level", U, c), _two_floats(c)]


@lemma(
    "sum-flush-to-zero",
    "With flush-to-zero additions of normal numbers a sum of n <= 2^24 errs by at most "
    "(n - 1)(u sum |x| + 2^-126).",
    topic="sums",
    used_by=(
        "spec.bounds.closed:_tiny",
    ),
    constant=1, control=F(1, 2),
    loose=("small leaf", "large leaf", "both long"),
)  # fmt: skip
def _sum_flush_to_zero(c: Fraction) -> Sequence[Goal]:
    a1, a2, x11, x12, x21, x22 = z3.Reals("A1 A2 X11 X12 X21 X22")
    s1, s2, e1, e2, rounding = z3.Reals("S1 S2 e1 e2 rounding")
    n1, n2 = z3.Reals("n1 n2")
    u, f = rat(U), rat(c)  # lengths in units of 2^-126: the flush error is 1
    base = (
        *(x >= 0 for x in (a1, a2, x11, x12, x21, x22)), n1 >= 1, n2 >= 1, n1 + n2 <= HIGH,
        within(s1, a1), within(s2, a2),
        within(e1, u * x11 + (n1 - 1) * f), within(e2, u * x22 + (n2 - 1) * f),
    )  # fmt: skip
    bound = u * (x11 + x21 + a1 + x12 + x22 + a2) + (n1 + n2 - 1) * f
    total = within(e1 + e2 + rounding, bound)
    normal = within(rounding, u * mag(s1 + e1 + s2 + e2))
    leaf = (n2 == 1, x22 == 0, x21 == 0)
    long = (n1 >= 2, n2 >= 2, x21 >= a1, x12 >= a2, u * x11 <= a1, u * x22 <= a2)
    small = (a2 <= u * a1, within(rounding, mag(s2 + e2)))
    s, k, y = z3.Real("s"), z3.Int("k"), z3.Real("y")
    flush = (s > 0, s < 1, s == z3.ToReal(k) * rat(pow2(-23)))  # 2^-126 (1 + s) - 2^-126

    def replay(v: Values) -> Outcome:
        x, y = pow2(-126) * (1 + F(v["s"])), -pow2(-126)
        return Outcome(is_f32(x) and 0 < v["s"] < 1, abs(x + y) <= c * pow2(-126))

    return [
        _atom_goal(),
        Goal("atoms, n <= 2^24", (k >= 1, k <= HIGH, y >= 0), _bounded_atom(k, y)),
        Goal("flushed", (*base, within(rounding, rat(1))), total),
        Goal("small leaf", (*base, normal, *leaf, *small), total),
        Goal("large leaf", (*base, normal, *leaf, a2 >= u * a1, x12 >= u * x11), total),
        Goal("both long", (*base, normal, *long), total),
        Goal("one flush", flush, s <= rat(c), replay),
    ]


def _bounded_atom(k: Expr, y: Expr) -> Expr:
    """For 1 <= k <= 2^24: k y >= y and u k y <= y."""
    product = z3.ToReal(k) * y
    return z3.And(product >= y, rat(U) * product <= y)
