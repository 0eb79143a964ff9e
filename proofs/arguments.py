"""Lemmas about the argument of ex2: the logit in base 2 less its reference, rounded or fused."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import z3

from dmverify.proofs.encode import mag, rat, within
from dmverify.proofs.exact import U
from dmverify.proofs.registry import Goal, Outcome, Values, lemma

F = Fraction


@lemma(
    "ex2-argument",
    "With ct = RN(RN(sQ c) sK), a product RN(a ct) and a difference, the argument of ex2 is within "
    "(13/4) u |S| + 8 u^2 |S| + u |argument| of S - b, S = a sQ sK scale log2 e exactly.",
    topic="softmax", rests_on=("softmax-constant",),
    used_by=(
        "spec.attention.unspecified_order:widen_exponent",
    ),
    constant=F(13, 4), control=F(13, 8),
)  # fmt: skip
def _ex2_argument(c: Fraction) -> Sequence[Goal]:
    exact, once, twice, logit, b, argument = z3.Reals("S once twice logit b argument")
    u = rat(U)
    steps = (
        within(once - exact, rat(F(5, 4) * U) * mag(exact)), within(twice - once, u * mag(once)),
        within(logit - twice, u * mag(twice)), within(argument - (logit - b), u * mag(argument)),
    )  # fmt: skip
    bound = rat(c * U + 8 * U**2) * mag(exact) + u * mag(argument)

    def replay(v: Values) -> Outcome:
        x = [F(v[name]) for name in ("S", "once", "twice", "logit")]
        limits = [F(5, 4) * U, U, U]
        inside = all(abs(x[i + 1] - x[i]) <= limits[i] * abs(x[i]) for i in range(3))
        argument, b = F(v["argument"]), F(v["b"])
        inside = inside and abs(argument - (x[3] - b)) <= U * abs(argument)
        limit = (c * U + 8 * U**2) * abs(x[0]) + U * abs(argument)
        return Outcome(inside, abs(argument - (x[0] - b)) <= limit)

    return [Goal("error", steps, within(argument - (exact - b), bound), replay)]


@lemma(
    "ex2-argument-fused",
    "With ct = RN(RN(sQ c) sK) the fused argument RN(a ct - b) of ex2 is within (9/4) u |S| "
    "+ 2 u^2 |S| + u |argument| of S - b, S = a sQ sK scale log2 e exactly.",
    topic="softmax", rests_on=("softmax-constant",),
    used_by=(
        "spec.attention.windows:exponentials",
        "spec.ledger.bounds:_SOFTMAX",
    ),
    constant=F(9, 4), control=F(9, 8),
)  # fmt: skip
def _ex2_argument_fused(c: Fraction) -> Sequence[Goal]:
    exact, once, twice, b, argument = z3.Reals("S once twice b argument")
    u = rat(U)
    steps = (
        within(once - exact, rat(F(5, 4) * U) * mag(exact)), within(twice - once, u * mag(once)),
        within(argument - (twice - b), u * mag(argument)),
    )  # fmt: skip
    bound = rat(c * U + 2 * U**2) * mag(exact) + u * mag(argument)

    def replay(v: Values) -> Outcome:
        x = [F(v[name]) for name in ("S", "once", "twice")]
        limits = [F(5, 4) * U, U]
        inside = all(abs(x[i + 1] - x[i]) <= limits[i] * abs(x[i]) for i in range(2))
        argument, b = F(v["argument"]), F(v["b"])
        inside = inside and abs(argument - (x[2] - b)) <= U * abs(argument)
        limit = (c * U + 2 * U**2) * abs(x[0]) + U * abs(argument)
        return Outcome(inside, abs(argument - (x[0] - b)) <= limit)

    return [Goal("error", steps, within(argument - (exact - b), bound), replay)]
