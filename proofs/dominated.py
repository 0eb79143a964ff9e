"""A float32 sum of which one term is most: what is added bounds the error of adding it.

Follow the largest term from its leaf to the root of the tree of additions. At each node a partial
sum p meets a subtree of other terms, whose sizes add up to B and whose computed sum errs by at most
g B (sum-any-tree, g = (n - 1) u). p is a float, so the addition errs by at most the size of the
subtree's computed sum (rn-candidate), and by at most t = u S (1 + g) as any rounding does. Down at
the leaves min(t, B) is at most the sum of min(t, |x|) over the subtree's terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import z3

from dmverify.proofs.encode import mag, nearest_even, rat, within
from dmverify.proofs.registry import Goal, Outcome, Values, lemma

F = Fraction
LOW, HIGH = 2**23, 2**24


@lemma(
    "sum-dominated",
    "An fp32 sum of n numbers in any order errs by at most (1 + g) sum min(t, |x|) + g sum |x| "
    "over all terms but one, g = n u, t = u (1 + g) S: one more subtree keeps the bound.",
    topic="sums",
    used_by=(
        "spec.ledger.bounds:_SUM",
        "spec.ledger.bounds.magnitudes:dominated",
    ),
    constant=1, control=F(1, 2), rests_on=("rn-candidate", "sum-any-tree", "rn-error"),
)  # fmt: skip
def _sum_dominated(c: Fraction) -> Sequence[Goal]:
    spent, e, e_sub, rounding, b, b_sum, gb, t = z3.Reals("spent e esub rounding B sum gB t")
    capped, g_capped = z3.Reals("capped gcapped")  # min(t, B), and g times it
    hypotheses = (
        spent >= 0, b >= 0, gb >= 0, t >= 0, g_capped >= 0,
        within(e, spent), within(e_sub, gb), within(b_sum, b),
        within(rounding, mag(b_sum + e_sub)), within(rounding, t),
    )  # fmt: skip
    below = (capped == z3.If(t <= b, t, b), z3.Implies(b <= t, g_capped == gb))
    grown = within(e + e_sub + rounding, spent + rat(c) * (capped + g_capped) + gb)
    first, second, cap = z3.Reals("first second cap")
    least = z3.If(cap <= first + second, cap, first + second)
    parts = z3.If(cap <= first, cap, first) + z3.If(cap <= second, cap, second)
    leaves = Goal("leaves", (first >= 0, second >= 0, cap >= 0), least <= parts)
    return [Goal("one more subtree", (*hypotheses, *below), grown), leaves, _half_lost(c)]


def _half_lost(c: Fraction) -> Goal:
    """A large float and a small one that rounding takes away: all that was added is lost."""
    a, b, m = z3.Ints("a b m")
    exact = z3.ToReal(a) + z3.ToReal(b) / 2**10
    hypotheses = (a >= LOW, a < HIGH, b >= 0, b < 2**9, exact < HIGH, nearest_even(exact, m))

    def replay(v: Values) -> Outcome:
        large, small = np.float32(int(v["a"])), np.float32(int(v["b"]) / 2**10)
        exact = F(float(large)) + F(float(small))
        lost = abs(F(float(large + small)) - exact)
        return Outcome(bool(LOW <= large) and exact < HIGH, lost <= c * F(float(small)))

    small = rat(c) * z3.ToReal(b) / 2**10
    guide = (a == LOW, b == 300, m == LOW)
    return Goal("two floats", hypotheses, within(z3.ToReal(m) - exact, small), replay, guide)
