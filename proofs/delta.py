"""Lemmas about row sums of dS: matched, renormalized and shifted delta, and the norm term.

A = sum P dP, B = sum P > 0, T = sum P |t|; a hat is a computed value. Relative errors g of the sums
come from the lemmas on sums. Underflow of products is a separate term (n eta), stated where it
enters; hypotheses keep B away from zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import z3

from dmverify.proofs.encode import mag, rat, within
from dmverify.proofs.exact import U
from dmverify.proofs.registry import Goal, Outcome, Values, lemma

F = Fraction
ONE = F(1)


@lemma(
    "elem-error",
    "dS = RN(P RN(dP - delta)): |dS - P (dP - delta)| <= (2u + u^2) P |dP - delta| + eta, eta the "
    "underflow error of one product.",
    topic="delta",
    used_by=(
        "spec.bounds.closed:gradient_row",
        "spec.bounds.residual:_elem",
        "spec.ledger.bounds:BOUNDS",
    ),
    constant=2, control=1,
)  # fmt: skip
def _elem_error(c: Fraction) -> Sequence[Goal]:
    exact, once, twice, eta = z3.Reals("exact once twice eta")
    u = rat(U)
    hypotheses = (
        exact >= 0, eta >= 0, within(once - exact, u * exact),
        within(twice - once, u * once + eta),
    )  # fmt: skip
    bound = rat(c * U + U**2) * exact + eta

    def replay(v: Values) -> Outcome:
        exact, once, twice, eta = (F(v[k]) for k in ("exact", "once", "twice", "eta"))
        model = exact >= 0 and abs(once - exact) <= U * exact
        model = model and abs(twice - once) <= U * once + eta
        return Outcome(model, abs(twice - exact) <= (c * U + U**2) * exact + eta)

    return [Goal("error", hypotheses, within(twice - exact, bound), replay)]


@lemma(
    "matched-bound",
    "|R| <= |A - delta| + |delta| |1 - B| + sum |elem_j|.",
    topic="delta",
    used_by=(
        "spec.bounds.columns:column_bound",
        "spec.bounds.residual:_matched",
        "spec.ledger.bounds:BOUNDS",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _matched_bound(c: Fraction) -> Sequence[Goal]:
    a, delta, b, r, size, one = z3.Reals("A delta B R elems elem")
    total = z3.Real("total")
    product = z3.Real("deltaB")  # atom delta (1 - B), with |delta| |1 - B| its size
    hypotheses = (size >= 0, within(total, size), r == (a - delta) + product + total)
    bound = mag(a - delta) + rat(c) * mag(product) + size
    step = Goal("one key more", (within(total, size),), within(total + one, size + mag(one)))
    atom = Goal("atom", (), mag(delta * (1 - b)) == mag(delta) * mag(1 - b))

    def replay(v: Values) -> Outcome:
        # One key with exact dS: P = B, dP = A / B, delta as given and R the row sum.
        diff, product = F(v["A"]) - F(v["delta"]), F(v["deltaB"])
        r = diff + product + F(v["total"])
        same = r == v["R"] and abs(F(v["total"])) <= v["elems"]
        return Outcome(same, abs(r) <= abs(diff) + c * abs(product) + F(v["elems"]))

    return [step, atom, Goal("bound", hypotheses, within(r, bound), replay)]


def _quotient(c: Fraction, division: Fraction = ONE) -> Goal:
    """x r = 1 + d with r = B^/B: x is delta B over the computed numerator A^.

    |1 - x| (1 - g) <= c g + division e for |r - 1| <= g < 1, |d| <= e.
    """
    x, r, d, g, e = z3.Reals("x r d g e")
    hypotheses = (g >= 0, g < 1, e >= 0, within(r - 1, g), within(d, e), x * r == 1 + d)
    bound = within((1 - x) * (1 - g), rat(c) * g + rat(division) * e)

    def replay(v: Values) -> Outcome:
        r, d, g, e = (F(v[k]) for k in ("r", "d", "g", "e"))
        inside = 0 <= g < 1 and abs(r - 1) <= g and abs(d) <= e
        # A^ = A = 1, B = 1, B^ = r, delta = (A^ / B^)(1 + d).
        delta = (1 + d) / r
        return Outcome(inside, abs(1 - delta) <= (c * g + division * e) / (1 - g))

    guide = (g == rat(F(1, 2)), e == rat(F(1, 8)), r == rat(F(1, 2)), d == rat(F(1, 8)))
    return Goal("quotient", hypotheses, bound, replay, guide)


@lemma(
    "renormalized-delta",
    "delta = A^/B^ (1 + d): |A - delta B| <= |eA| + (|A| + |eA|)(gB + e_div)/(1 - gB), independent "
    "of how far B is from 1.",
    topic="delta",
    used_by=(
        "spec.bounds.premises:PREMISES",
        "spec.bounds.residual:_quotient",
        "spec.ledger.bounds.premises:PREMISES",
        "spec.ledger.bounds:BOUNDS",
    ),
    constant=1, control=F(1, 2), tightened=lambda: [_quotient(F(1), F(1, 2))],
)  # fmt: skip
def _renormalized(c: Fraction) -> Sequence[Goal]:
    a, error, gap, kappa = z3.Reals("A eA gap kappa")
    # gap = A^ - delta B = A^ (1 - x), so |gap| <= |A^| kappa with kappa from the quotient goal.
    hypotheses = (kappa >= 0, mag(gap) <= mag(a + error) * kappa)
    bound = mag(error) + (mag(a) + mag(error)) * kappa
    triangle = Goal("triangle", hypotheses, within(gap - error, bound))
    return [triangle, _quotient(c)]


@lemma(
    "shifted-delta",
    "lo = RN(A^/B^), dS = RN(P RN(t - lo)): |R| <= [gA + (1 + gA)(gB + u)/(1 - gB)] sum P|t| "
    "+ sum |elem|, with A = sum P t and |A^ - A| <= gA sum P|t|.",
    topic="delta",
    used_by=(
        "spec.bounds.premises:PREMISES",
        "spec.bounds.residual:_quotient",
        "spec.ledger.bounds.premises:PREMISES",
        "spec.ledger.bounds:BOUNDS",
    ),
    constant=1, control=F(1, 2), tightened=lambda: [_quotient(F(1, 2)), _quotient(F(1), F(1, 2))],
)  # fmt: skip
def _shifted(c: Fraction) -> Sequence[Goal]:
    a, error, gap, size, elems, total = z3.Reals("A eA gap T elems total")
    ga, kappa, k_size, ga_size, ga_k = z3.Reals("gA kappa kT gT gkT")  # atoms kappa T, gA T, ...
    facts = (
        size >= 0, ga >= 0, kappa >= 0, k_size >= 0, ga_size >= 0, ga_k >= 0,
        within(a, size), within(error, ga_size), within(total, elems),
        within(gap, k_size + ga_k),  # |gap| <= kappa (|A| + |eA|)
    )  # fmt: skip
    r = (gap - error) + total  # R = (A - lo B) + elem, A - lo B = gap - eA
    bound = rat(c) * ga_size + k_size + ga_k + elems

    def replay(v: Values) -> Outcome:
        gap, error, total = F(v["gap"]), F(v["eA"]), F(v["total"])
        inside = abs(error) <= v["gT"] and abs(total) <= v["elems"]
        inside = inside and abs(gap) <= F(v["kT"]) + F(v["gkT"])
        limit = c * F(v["gT"]) + F(v["kT"]) + F(v["gkT"]) + F(v["elems"])
        return Outcome(inside, abs(gap - error + total) <= limit)

    atoms = Goal(
        "atoms", (ga >= 0, kappa >= 0, within(a, size), mag(error) <= ga * size, size >= 0),
        kappa * mag(a + error) <= kappa * size + ga * (kappa * size),
    )  # fmt: skip
    quotient = _quotient(F(1))
    return [
        atoms, Goal(quotient.name, quotient.hypotheses, quotient.conclusion),
        Goal("bound", facts, within(r, bound), replay),
    ]  # fmt: skip


@lemma(
    "shifted-dominance",
    "sum P|dP - d0| <= sum P|dP - m| for every m, A/B among them, when P >= B/2 at the key whose "
    "dP is d0.",
    topic="delta",
    used_by=(
        "spec.attention.delta:_shifted",
    ),
    constant=F(1, 2), control=F(1, 4),
)  # fmt: skip
def _shifted_dominance(c: Fraction) -> Sequence[Goal]:
    p, d, d0, m, left, right, weight, far = z3.Reals("P d d0 m left right weight far")
    # Over the other keys: left sum P|d - d0|, right sum P|d - m|, weight sum P; far = |m - d0|.
    term = Goal("one key", (p >= 0,), p * mag(d - d0) <= p * mag(d - m) + p * mag(m - d0))
    more, less, product, step_far = z3.Reals("more less product step_far")
    step = Goal(
        "one key more",
        (left <= right + product, more <= less + step_far),
        left + more <= right + less + (product + step_far),
    )
    peak, total = z3.Reals("P0 B")
    heavy = (weight >= 0, far >= 0, total == peak + weight, peak >= rat(c) * total, peak >= 0)
    final = Goal("final", (*heavy, left <= right + weight * far), left <= right + peak * far)
    p1, d1 = z3.Reals("P1 d1")
    mean = z3.Real("mean")
    two = (p >= 0, p1 > 0, p >= rat(c) * (p + p1), d1 >= 0, mean * (p + p1) == p1 * d1)

    def replay(v: Values) -> Outcome:
        # Two keys: dP = (0, d1), d0 = 0, m = A/B.
        p0, p1, d1 = F(v["P"]), F(v["P1"]), F(v["d1"])
        mean = p1 * d1 / (p0 + p1)
        inside = p0 >= 0 and p1 > 0 and p0 >= c * (p0 + p1)
        return Outcome(inside, p1 * abs(d1) <= p0 * abs(mean) + p1 * abs(d1 - mean))

    claim = p1 * d1 <= p * mag(mean) + p1 * mag(d1 - mean)
    guide = (p == rat(F(1, 3)), p1 == rat(F(2, 3)), d1 == 1)
    return [term, step, final, Goal("two keys", two, claim, replay, guide)]


@lemma(
    "norm-perturbation",
    "If P_j = p_j (1 + e_j), sum p = 1 and |e_j| <= e, then |1 - sum P| <= e; one key more keeps "
    "|sum P - sum p| <= e sum p.",
    topic="delta",
    used_by=(
        "spec.bounds.residual:_from_output",
        "spec.bounds.residual:_matched",
        "spec.ledger.bounds:_SOFTMAX",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _norm_perturbation(c: Fraction) -> Sequence[Goal]:
    big, small, p, error, e = z3.Reals("sumP sump p error e")
    es, ep = z3.Reals("e_sum e_p")  # atoms e sum p, e p
    step = Goal(
        "one key more", (within(big - small, es), within(error, ep)),
        within((big + p + error) - (small + p), es + ep),
    )  # fmt: skip
    e1, e2 = z3.Reals("e1 e2")

    def replay(v: Values) -> Outcome:
        p, e1, e2, e = (F(v[name]) for name in ("p", "e1", "e2", "e"))
        inside = 0 <= p <= 1 and max(abs(e1), abs(e2)) <= e
        return Outcome(inside, abs(1 - p * (1 + e1) - (1 - p) * (1 + e2)) <= c * e)

    atom = Goal("atom", (p >= 0, mag(e1) <= e), z3.And(p * e1 <= e * p, p * e1 >= -(e * p)))
    two = (p >= 0, p <= 1, within(e1, e), within(e2, e))
    missed = within(1 - p * (1 + e1) - (1 - p) * (1 + e2), rat(c) * e)
    return [step, atom, Goal("two keys", two, missed, replay, (p == 1, e2 == 0, e == 1))]


@lemma(
    "relative-inverse",
    "If |e| <= x < 1 then |1/(1 + e) - 1| <= x/(1 - x): a relative error seen from the other side, "
    "of p from P or of a quotient from its denominator.",
    topic="delta",
    used_by=(
        "spec.arithmetic.enclosure_softmax:share_ends",
        "spec.bounds.closed:_delta_from_rows",
        "spec.bounds.errors:Errors.probability",
        "spec.bounds.premises:PREMISES",
        "spec.ledger.bounds.premises:PREMISES",
        "spec.ledger.bounds.softmax:_inverse",
        "spec.ledger.bounds:_SOFTMAX",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _relative_inverse(c: Fraction) -> Sequence[Goal]:
    e, x, r = z3.Reals("e x r")

    def replay(v: Values) -> Outcome:
        e, x = F(v["e"]), F(v["x"])
        inside = abs(e) <= x < 1
        return Outcome(inside, inside and abs(1 / (1 + e) - 1) <= c * x / (1 - x))

    hypotheses = (within(e, x), x < 1, r * (1 + e) == 1)
    guide = (x == rat(F(1, 2)), e == rat(F(-1, 2)))
    return [Goal("inverse", hypotheses, within((r - 1) * (1 - x), rat(c) * x), replay, guide)]


@lemma(
    "relative-composition",
    "(1 + a)(1 + b) - 1 is at most a + b + a b in size for |a| <= A, |b| <= B: errors of ex2, rcp "
    "and roundings compound.",
    topic="delta",
    used_by=(
        "spec.bounds.term:compounded",
        "spec.ledger.bounds:_SOFTMAX",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _relative_composition(c: Fraction) -> Sequence[Goal]:
    a, b, peak_a, peak_b, ab, peak_ab = z3.Reals("a b A B ab AB")
    atom = Goal("atom", (mag(a) <= peak_a, mag(b) <= peak_b), mag(a * b) <= peak_a * peak_b)
    hypotheses = (within(a, peak_a), within(b, peak_b), within(ab, peak_ab))

    def replay(v: Values) -> Outcome:
        a, b, peak_a, peak_b = (F(v[k]) for k in ("a", "b", "A", "B"))
        inside = abs(a) <= peak_a and abs(b) <= peak_b
        error = (1 + a) * (1 + b) - 1
        return Outcome(inside, abs(error) <= peak_a + c * peak_b + peak_a * peak_b)

    bound = peak_a + rat(c) * peak_b + peak_ab
    guide = (a == rat(F(1, 8)), b == rat(F(1, 8)), peak_a == a, peak_b == b,
             ab == rat(F(1, 64)), peak_ab == rat(F(1, 64)))  # fmt: skip
    return [atom, Goal("sum", hypotheses, within(a + b + ab, bound), replay, guide)]
