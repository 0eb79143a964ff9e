"""Lemmas about the dS cast: the zero-sum chain and cast sets.

Zero-sum chain: t_i = RN(x_i + c_(i-1)), q_i = RN8sat(t_i), c_i = t_i - q_i. Values near 464 are
counted in units of 2^-15, the fp32 spacing there. Masked entries give code 0 and pass c on, which
is a step of length zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import z3

from dmverify.proofs.encode import (
    bv,
    e4m3_bits,
    exact_difference,
    f32,
    f32_bits,
    mag,
    magnitude_bits,
    nearest_even,
    rat,
    rounds_e4m3,
    within,
)
from dmverify.proofs.exact import U, f32_value, is_f32, pow2, round_e4m3, round_f32
from dmverify.proofs.registry import Expr, Goal, Outcome, Values, lemma

F = Fraction
ULP = pow2(-15)


@lemma(
    "carry-exact",
    "c = t - RN8sat(t) is exact in fp32 for |t| <= 2^30.",
    topic="cast",
    used_by=(
        "spec.arithmetic.enclosure:Enclosure.carry",
        "spec.attention.casts:zero_sum",
        "spec.ledger.bounds:BOUNDS",
    ),
    constant=2**30, control=2**31,
)  # fmt: skip
def _carry_exact(limit: Fraction) -> Sequence[Goal]:
    t = z3.BitVec("t", 32)
    q = e4m3_bits(t)

    def replay(v: Values) -> Outcome:
        t = f32_value(int(v["t"]))
        if t is None:
            return Outcome(False, False)
        return Outcome(abs(t) <= limit, is_f32(t - round_e4m3(t)))

    inside = z3.ULE(magnitude_bits(t), bv(f32_bits(limit)))
    return [Goal("exact", (inside,), exact_difference(f32(t), f32(q)), replay)]


def rounded_sum(y: Expr, t: Expr, n: Expr) -> Expr:
    """t = RN32(y) for |y| < 512, exactly in [256, 512) and as a bound below."""
    coarse = z3.And(nearest_even(y * rat(1 / ULP), n), t == z3.ToReal(n) * rat(ULP))
    sized = z3.If(mag(y) >= 256, coarse, z3.And(within(t, rat(256)), within(t - y, rat(ULP / 4))))
    return z3.And(mag(y) < 512, sized)


def saturated(t: Expr, q: Expr, m: Expr) -> Expr:
    """q = RN8sat(t) for |t| < 512."""
    top = z3.If(t > 0, rat(448), rat(-448))
    return z3.If(mag(t) <= 464, rounds_e4m3(t, q, m), q == top)


def _chain_step(x_limit: Fraction) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Variables and hypotheses of one chain step with |x| <= x_limit."""
    x, before, t, q, after = z3.Reals("x before t q after")
    n, m = z3.Ints("n m")
    hypotheses = (
        within(x, rat(x_limit)), rounded_sum(x + before, t, n), saturated(t, q, m), after == t - q,
    )  # fmt: skip
    return (x, before, t, q, after), hypotheses


def _replayed_step(v: Values) -> tuple[bool, Fraction, Fraction]:
    """Run the step in exact arithmetic: whether it agrees with the model, q and the new carry."""
    x, before = F(v["x"]), F(v["before"])
    t = round_f32(x + before)
    q = round_e4m3(t)
    agrees = t == v["t"] and q == v["q"] and is_f32(x) and is_f32(before)
    return agrees, q, t - q


def _on_grid(*terms: Expr) -> tuple[Expr, ...]:
    """Guide: the terms are multiples of 2^-15."""
    return tuple(term == z3.ToReal(z3.Int(f"grid{i}")) * rat(ULP) for i, term in enumerate(terms))


@lemma(
    "carry-unclamped",
    "With |x| <= 448 + 2^-15 (fp32 amax/448) the carry after k steps is at most 16 + k 2^-15, "
    "k <= 2^20.",
    topic="cast",
    used_by=(
        "spec.bounds.closed:cast_element",
        "spec.bounds.residual:_cast",
        "spec.ledger.bounds:BOUNDS",
        "spec.ledger.bounds.cast:half_unit",
        "spec.ledger.bounds.constants:CARRY_GROWTH",
    ),
    constant=1, control=F(1, 2),
    loose=("up to 464",),
)  # fmt: skip
def _carry_unclamped(c: Fraction) -> Sequence[Goal]:
    (_, before, t, _, after), step = _chain_step(448 + ULP)
    k = z3.Int("k")
    grown = within(before, 16 + z3.ToReal(k) * rat(c * ULP))
    bound = 16 + z3.ToReal(k + 1) * rat(c * ULP)
    hypotheses = (*step, k >= 0, k < 2**20, grown, mag(t) <= 464)
    return [Goal("up to 464", hypotheses, within(after, bound)), _beyond(c)]


def _beyond(c: Fraction) -> Goal:
    """t = n > 464, so q is 448; everything in units of 2^-15, positive by symmetry."""
    x, before = z3.Reals("x before")
    n, k, whole = z3.Ints("n k whole")
    peak = 448 * 2**15
    hypotheses = (
        k >= 0, k < 2**20, x <= peak + 1, before <= 16 * 2**15 + rat(c) * z3.ToReal(k),
        n > 464 * 2**15, within(2 * (x + before - z3.ToReal(n)), rat(1)),
    )  # fmt: skip
    carried = c.denominator * (n - 464 * 2**15) <= c.numerator * (k + 1)

    def replay(v: Values) -> Outcome:
        x, before, k = F(v["x"]) * ULP, F(v["before"]) * ULP, int(v["k"])
        t = round_f32(x + before)
        agrees = t == int(v["n"]) * ULP and is_f32(x) and is_f32(before)
        inside = agrees and abs(x) <= 448 + ULP and abs(before) <= 16 + k * c * ULP
        return Outcome(inside, abs(t - round_e4m3(t)) <= 16 + (k + 1) * c * ULP)

    guide = (before == z3.ToReal(whole), x == peak + 1)
    return Goal("beyond 464", hypotheses, carried, replay, guide)


@lemma(
    "carry-clamped",
    "With |x| <= 448 the carry never exceeds 16, for chains of any length.",
    topic="cast",
    used_by=(
        "spec.bounds.closed:CARRY",
        "spec.attention.casts:zero_sum",
        "spec.bounds.residual:_cast",
    ),
    constant=16, control=15,
)  # fmt: skip
def _carry_clamped(c: Fraction) -> Sequence[Goal]:
    (x, before, _, _, after), step = _chain_step(F(448))

    def replay(v: Values) -> Outcome:
        agrees, _, carry = _replayed_step(v)
        inside = agrees and abs(F(v["x"])) <= 448 and abs(F(v["before"])) <= c
        return Outcome(inside, abs(carry) <= c)

    hypotheses = (*step, within(before, rat(c)))
    return [Goal("step", hypotheses, within(after, rat(c)), replay, _on_grid(x, before))]


@lemma(
    "cast-perturbation",
    "In a clamped zero-sum chain |q_i - x_i| <= 32 + 2^-16: twice the nearest cast's worst case.",
    topic="cast",
    used_by=(
        "spec.bounds.closed:CARRIED",
    ),
    constant=32 + pow2(-16), control=31 + pow2(-16),
)  # fmt: skip
def _cast_perturbation(c: Fraction) -> Sequence[Goal]:
    (x, before, _, q, _), step = _chain_step(F(448))

    def replay(v: Values) -> Outcome:
        agrees, q, _ = _replayed_step(v)
        inside = agrees and abs(F(v["x"])) <= 448 and abs(F(v["before"])) <= 16
        return Outcome(inside, abs(q - F(v["x"])) <= c)

    hypotheses = (*step, within(before, rat(16)))
    return [Goal("step", hypotheses, within(q - x, rat(c)), replay, _on_grid(x, before))]


@lemma(
    "carry-telescopes",
    "sum q = sum x - c_n + sum rho, rho the roundings of the adds: only the last carry stays.",
    topic="cast",
    used_by=(
        "spec.attention.casts:zero_sum",
        "spec.bounds.closed:CARRIED",
        "spec.bounds.residual:_cast",
        "spec.ledger.bounds:BOUNDS",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _carry_telescopes(k: Fraction) -> Sequence[Goal]:
    total_q, total_x, rhos, before, x, rho, q, after = z3.Reals(
        "sumq sumx sumrho before x rho q after"
    )
    so_far = total_q == total_x - rat(k) * before + rhos
    step = (so_far, after == x + before + rho - q)
    holds = total_q + q == total_x + x - rat(k) * after + rhos + rho

    def replay(v: Values) -> Outcome:
        x, before, q = (F(v[name]) for name in ("x", "before", "q"))
        after = round_f32(x + before) - q
        rho = round_f32(x + before) - x - before
        books = v["sumq"] == F(v["sumx"]) - k * before + F(v["sumrho"])
        same = rho == v["rho"] and after == v["after"]
        left = F(v["sumq"]) + q
        return Outcome(books and same, left == F(v["sumx"]) + x - k * after + F(v["sumrho"]) + rho)

    guide = (x == 20, before == 0, rho == 0, q == 21, total_x == 0, rhos == 0)
    return [Goal("step", step, holds, replay, guide)]


@lemma(
    "cast-row-sum",
    "Per tile, in units of its scale: |sum q - sum X| <= |c_n| + sum |rho| + u sum |X|, with x the "
    "fp32 quotient of the exact X.",
    topic="cast",
    used_by=(
        "spec.bounds.residual:_cast",
        "spec.ledger.bounds:BOUNDS",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _cast_row_sum(c: Fraction) -> Sequence[Goal]:
    drift, rhos, sizes = z3.Reals("drift sumrho sumX")
    x, exact, rho, carry = z3.Reals("x X rho carry")
    u = rat(U)
    step = Goal(
        "one element more",
        (within(drift, rhos + u * sizes), within(x - exact, u * mag(exact))),
        within(drift + rho + (x - exact), rhos + mag(rho) + u * (sizes + mag(exact))),
    )
    final = Goal(
        "end of the chain", (within(drift, rhos + u * sizes),),
        within(drift - carry, mag(carry) + rhos + u * sizes),
    )  # fmt: skip

    def replay(v: Values) -> Outcome:
        exact = F(v["X"])
        x = round_f32(exact)
        q = round_e4m3(x)
        limit = abs(x - q) + c * U * abs(exact)
        return Outcome(x == v["x"], abs(q - exact) <= limit)

    n = z3.Int("n")
    one = (exact >= 1, exact < 2, nearest_even(exact * 2**23, n), x == z3.ToReal(n) / 2**23)
    # q = 1 is the code of every x in [1, 17/16].
    claim = mag(1 - exact) <= mag(x - 1) + rat(c) * u * exact
    single = Goal("one element", (*one, exact < rat(F(17, 16))), claim, replay)
    return [step, final, single]


@lemma(
    "cast-set",
    "lo <= x <= hi implies RN8(lo) <= RN8(x) <= RN8(hi) (same 3 fraction bits): the codes between "
    "are all that a conforming kernel can produce.",
    topic="cast",
    used_by=(
        "conformance.bounds:ORDER_LEMMAS",
        "spec.arithmetic.enclosure:Enclosure.cast",
        "spec.arithmetic.enclosure_numbers:Numbers.cast",
    ),
    constant=3, control=2, kind="format",
)  # fmt: skip
def _cast_set(bits: Fraction) -> Sequence[Goal]:
    low, x, high, q_low, q, q_high = z3.Reals("lo x hi qlo q qhi")
    m1, m2 = z3.Ints("m1 m2")
    width = int(bits)

    def replay(v: Values) -> Outcome:
        low, x = F(v["lo"]), F(v["x"])
        end = round_e4m3(low, fraction_bits=width, saturate=False)
        same = end == v["qlo"] and round_e4m3(x) == v["q"]
        inside = same and low <= x and abs(low) <= 464 and abs(x) <= 464
        return Outcome(inside, end <= round_e4m3(x))

    below = (
        low <= x, within(low, rat(464)), within(x, rat(464)),
        rounds_e4m3(low, q_low, m1, fraction_bits=width), rounds_e4m3(x, q, m2),
    )  # fmt: skip
    above = (
        x <= high, within(x, rat(464)), within(high, rat(464)),
        rounds_e4m3(x, q, m1), rounds_e4m3(high, q_high, m2, fraction_bits=width),
    )  # fmt: skip
    return [Goal("from below", below, q_low <= q, replay), Goal("from above", above, q <= q_high)]
