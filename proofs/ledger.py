"""Ring identities: the residual ledger, eq. 2, column sums, centring and projection.

A sum over keys and head dims is handled per summand plus linearity: the identity of one summand (or
one induction step) is a goal, and the assembly of the sums is linear in the accumulated terms.
The control scales one term; a ledger that books a term twice or half must not balance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import z3

from dmverify.proofs.encode import rat
from dmverify.proofs.registry import Expr, Goal, Outcome, Values, lemma

F = Fraction
Terms = dict[str, Expr]


def reals(names: str) -> Terms:
    """Real variables by name."""
    return {name: z3.Real(name) for name in names.split()}


def identity(
    name: str, names: str, left: Callable[[Terms], Expr], right: Callable[[Terms], Expr]
) -> Goal:
    """A polynomial identity, replayed on exact rationals by the same formulas over Fractions."""

    def replay(v: Values) -> Outcome:
        numbers = {key: F(value) for key, value in v.items()}
        complete = {key: numbers.get(key, F(0)) for key in names.split()}
        return Outcome(True, left(complete) == right(complete))

    terms = reals(names)
    small = tuple(z3.And(t >= 1, t <= 4) for t in terms.values())
    return Goal(name, (), left(terms) == right(terms), replay, small)


def assembled(c: Fraction, *, consistent: bool) -> Sequence[Goal]:
    """Two keys and two head dims written out: the ledger sums to R, with every sum expanded.

    Variables: g dO^, h dO, b V^b, f V^f, p P, t P~, w O32, o O, d dP, s dS, e delta.
    """
    names = "g1 g2 h1 h2 b11 b12 b21 b22 f11 f12 f21 f22 p1 p2 t1 t2 w1 w2 o1 o2 d1 d2 s1 s2 e"
    keys, dims = (1, 2), (1, 2)

    def right(x: Terms) -> Expr:
        h = {k: x[f"g{k}" if consistent else f"h{k}"] for k in dims}
        g = {k: x[f"g{k}"] for k in dims}
        made = {k: sum(x[f"t{j}"] * x[f"f{j}{k}"] for j in keys) for k in dims}
        prob = sum(g[k] * (x[f"p{j}"] - x[f"t{j}"]) * x[f"b{j}{k}"] for j in keys for k in dims)
        vmis = sum(g[k] * x[f"t{j}"] * (x[f"b{j}{k}"] - x[f"f{j}{k}"]) for j in keys for k in dims)
        grad = sum((g[k] - h[k]) * made[k] for k in dims)
        acc = -sum(h[k] * (x[f"w{k}"] - made[k]) for k in dims)
        out = -sum(h[k] * (x[f"o{k}"] - x[f"w{k}"]) for k in dims)
        dot = -(x["e"] - sum(h[k] * x[f"o{k}"] for k in dims))
        norm = x["e"] * (1 - sum(x[f"p{j}"] for j in keys))
        exact = {j: sum(g[k] * x[f"b{j}{k}"] for k in dims) for j in keys}
        accdp = sum(x[f"p{j}"] * (x[f"d{j}"] - exact[j]) for j in keys)
        elem = sum(x[f"s{j}"] - x[f"p{j}"] * (x[f"d{j}"] - x["e"]) for j in keys)
        scale = c if isinstance(x["e"], Fraction) else rat(c)
        return prob + grad + acc + scale * out + dot + norm + accdp + elem + vmis

    return [identity("two keys, two dims", names, lambda x: x["s1"] + x["s2"], right)]


@lemma(
    "ledger-stale",
    "R = prob + grad + acc + out + dot + norm + accdP + elem + vmis exactly, for any P~, O32, V^f.",
    topic="ledger",
    used_by=(
        "spec.ledger.bounds:BOUNDS",
        "spec.ledger.ledger:ledger",
    ),
    constant=1, control=F(1, 2), timeout=120,
)  # fmt: skip
def _ledger_stale(c: Fraction) -> Sequence[Goal]:
    return [*summands(), assembly(c), *assembled(c, consistent=False)]


def summands() -> list[Goal]:
    """What one (key, dim), one dim and one key contribute, for sums of any length."""
    pair = identity(
        "one key and dim", "g h p t b f",
        lambda x: x["g"] * (x["p"] - x["t"]) * x["b"] + (x["g"] - x["h"]) * x["t"] * x["f"]
        + x["g"] * x["t"] * (x["b"] - x["f"]),
        lambda x: x["p"] * x["g"] * x["b"] - x["h"] * x["t"] * x["f"],
    )  # fmt: skip
    dim = identity(
        "one dim", "h w o made",
        lambda x: -x["h"] * (x["w"] - x["made"]) - x["h"] * (x["o"] - x["w"]),
        lambda x: x["h"] * x["made"] - x["h"] * x["o"],
    )  # fmt: skip
    key = identity(
        "one key", "p d exact s e",
        lambda x: x["p"] * (x["d"] - x["exact"]) + x["s"] - x["p"] * (x["d"] - x["e"]),
        lambda x: x["s"] + x["p"] * x["e"] - x["p"] * x["exact"],
    )  # fmt: skip
    return [_silent(pair), _silent(dim), _silent(key)]


def _silent(goal: Goal) -> Goal:
    """A goal without the control's constant cannot serve as the control."""
    return Goal(goal.name, goal.hypotheses, goal.conclusion)


def assembly(c: Fraction) -> Goal:
    """The sums put together: linear in the accumulated contributions.

    PGV sum p g b, HTF sum h t f, HO sum h o, B sum p, EB delta B, R sum of dS.
    """
    names = "PGV HTF HO EB R e"

    def right(x: Terms) -> Expr:
        scale = c if isinstance(x["e"], Fraction) else rat(c)
        pairs, dims = x["PGV"] - x["HTF"], x["HTF"] - x["HO"]
        keys = x["R"] + x["EB"] - x["PGV"]
        return pairs + scale * dims + keys + (-x["e"] + x["HO"]) + (x["e"] - x["EB"])

    return identity("assembly", names, lambda x: x["R"], right)


@lemma(
    "ledger-consistent",
    "With dO^ in place of dO in acc, out and dot, grad vanishes and the ledger stays exact.",
    topic="ledger",
    used_by=(
        "spec.ledger.ledger:ledger",
    ),
    constant=1, control=F(1, 2), timeout=120,
)  # fmt: skip
def _ledger_consistent(c: Fraction) -> Sequence[Goal]:
    return list(assembled(c, consistent=True))


@lemma(
    "eq2",
    "Idealised (sum P = 1, one V^, O = sum P~ V^ exactly, delta = <dO, O>, dS exact): "
    "sum dS = probability term + gradient term.",
    topic="ledger",
    used_by=(
        "spec.ledger.ledger:ledger",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _eq2(c: Fraction) -> Sequence[Goal]:
    def left(x: Terms) -> Expr:
        p = (x["p1"], 1 - x["p1"])
        v, t = (x["v1"], x["v2"]), (x["t1"], x["t2"])
        delta = x["h"] * (t[0] * v[0] + t[1] * v[1])
        return sum(p[j] * (x["g"] * v[j] - delta) for j in (0, 1))

    def right(x: Terms) -> Expr:
        scale = c if isinstance(x["g"], Fraction) else rat(c)
        p = (x["p1"], 1 - x["p1"])
        v, t = (x["v1"], x["v2"]), (x["t1"], x["t2"])
        prob = sum(x["g"] * (p[j] - t[j]) * v[j] for j in (0, 1))
        return prob + scale * (x["g"] - x["h"]) * (t[0] * v[0] + t[1] * v[1])

    return [identity("two keys, one dim", "g h p1 t1 t2 v1 v2", left, right)]


@lemma(
    "ledger-matched",
    "Matched: R = (A - delta) + delta (1 - B) + elem exactly, A = sum P dP, B = sum P; a key "
    "more keeps it.",
    topic="ledger",
    used_by=(
        "spec.ledger.ledger:ledger",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _ledger_matched(c: Fraction) -> Sequence[Goal]:
    def right(x: Terms) -> Expr:
        scale = c if isinstance(x["e"], Fraction) else rat(c)
        return (x["A"] - x["e"]) + scale * x["e"] * (1 - x["B"]) + x["elem"]

    def grown(x: Terms) -> Expr:
        a, b = x["A"] + x["p"] * x["d"], x["B"] + x["p"]
        elem = x["elem"] + x["s"] - x["p"] * (x["d"] - x["e"])
        return (a - x["e"]) + x["e"] * (1 - b) + elem

    step = identity(
        "one key more", "A B elem e p d s",
        lambda x: (x["A"] - x["e"]) + x["e"] * (1 - x["B"]) + x["elem"] + x["s"], grown,
    )  # fmt: skip

    def first(x: Terms) -> Expr:
        one = {**x, "A": x["p"] * x["d"], "B": x["p"]}
        return right({**one, "elem": x["s"] - x["p"] * (x["d"] - x["e"])})

    return [_silent(step), identity("one key", "e p d s", lambda x: x["s"], first)]


@lemma(
    "ledger-associated",
    "Associated (dS from the rounded P~, delta from the unrounded output Om): R = "
    "<dO^, sum P~ V - Om> + (<dO^, Om> - delta) + accdP + delta (1 - sum P~) + elem.",
    topic="ledger",
    used_by=(
        "spec.ledger.ledger:ledger",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _ledger_associated(c: Fraction) -> Sequence[Goal]:
    names = "g t1 t2 v1 v2 om d1 d2 s1 s2 e"

    def right(x: Terms) -> Expr:
        scale = c if isinstance(x["e"], Fraction) else rat(c)
        made = x["t1"] * x["v1"] + x["t2"] * x["v2"]
        accdp = sum(x[f"t{j}"] * (x[f"d{j}"] - x["g"] * x[f"v{j}"]) for j in (1, 2))
        elem = sum(x[f"s{j}"] - x[f"t{j}"] * (x[f"d{j}"] - x["e"]) for j in (1, 2))
        norm = x["e"] * (1 - x["t1"] - x["t2"])
        return scale * x["g"] * (made - x["om"]) + x["g"] * x["om"] - x["e"] + accdp + norm + elem

    return [identity("two keys, one dim", names, lambda x: x["s1"] + x["s2"], right)]


@lemma(
    "column-sum",
    "sum_j dK_jc = sum_i R_i q_ic: one element of dS more adds the same to both sides.",
    topic="ledger",
    used_by=(
        "conformance.tomography.readings:_from_dk",
        "spec.bounds.columns:column_bound",
        "spec.bounds.column_ledger:columns",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _column_sum(c: Fraction) -> Sequence[Goal]:
    def right(x: Terms) -> Expr:
        scale = c if isinstance(x["q"], Fraction) else rat(c)
        return x["total"] + scale * x["s"] * x["q"] + x["R"] * x["q"]

    return [
        identity(
            "one element more", "total R s q",
            lambda x: x["total"] + (x["R"] + x["s"]) * x["q"], right,
        )
    ]  # fmt: skip


@lemma(
    "centring-gradient",
    "The gradient of K -> K - mean K is G - mean G: sum_j G_j (x_j - mean x) = "
    "sum_j (G_j - mean G) x_j for every x.",
    topic="ledger",
    used_by=(
        "spec.scaling.centring:centre",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _centring_gradient(c: Fraction) -> Sequence[Goal]:
    step = identity(
        "one key more", "GX SG SX G X mean_x mean_g",
        lambda x: (x["GX"] + x["G"] * x["X"]) - x["mean_x"] * (x["SG"] + x["G"]),
        lambda x: (x["GX"] - x["mean_x"] * x["SG"]) + x["G"] * (x["X"] - x["mean_x"]),
    )  # fmt: skip
    gx, n, mean_x, mean_g = z3.Reals("GX n mean_x mean_g")
    centred_x = gx - mean_x * (n * mean_g)
    centred_g = gx - rat(c) * mean_g * (n * mean_x)

    def replay(v: Values) -> Outcome:
        # n = 2 keys realising the means: G = (2 mean, 0), x = (2 mean, 0).
        g, x = [2 * F(v["mean_g"]), F(0)], [2 * F(v["mean_x"]), F(0)]
        left = sum(g[j] * (x[j] - sum(x) / 2) for j in (0, 1))
        right = sum((g[j] - c * sum(g) / 2) * x[j] for j in (0, 1))
        return Outcome(v["n"] == 2, left == right)

    guide = (n == 2, mean_x == 1, mean_g == 1, gx == 4)
    return [_silent(step), Goal("means", (n >= 1,), centred_x == centred_g, replay, guide)]


@lemma(
    "projected-dk",
    "Subtracting the mean over keys makes the column sum of dK zero and never increases its "
    "Frobenius norm: S1 - n m = 0 and S2 - 2 m S1 + n m^2 <= S2 for m = S1/n.",
    topic="ledger",
    used_by=(
        "conformance.tomography.kind:_blind",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _projected_dk(c: Fraction) -> Sequence[Goal]:
    step = identity(
        "one key more", "S1 S2 n m x",
        lambda x: x["S2"] - 2 * x["m"] * x["S1"] + x["n"] * x["m"] * x["m"]
        + (x["x"] - x["m"]) * (x["x"] - x["m"]),
        lambda x: (x["S2"] + x["x"] * x["x"]) - 2 * x["m"] * (x["S1"] + x["x"])
        + (x["n"] + 1) * x["m"] * x["m"],
    )  # fmt: skip
    s1, s2, n, m = z3.Reals("S1 S2 n m")
    norm = Goal("norm", (n >= 1, n * m == s1), s2 - 2 * m * s1 + n * m * m <= s2)
    scaled = (n >= 1, n * m == rat(c) * s1)

    def replay(v: Values) -> Outcome:
        x = [F(v["S1"]), F(0)]
        mean = c * sum(x) / len(x)
        return Outcome(v["n"] == 2 and v["m"] == mean, sum(y - mean for y in x) == 0)

    return [_silent(step), norm, Goal("sum", scaled, s1 - n * m == 0, replay, (n == 2, s1 == 1))]


@lemma(
    "centring-shift",
    "Centring K shifts all logits of a row alike: q (k - mu) - q (l - mu) = q k - q l, so softmax "
    "does not change.",
    topic="ledger",
    used_by=(
        "spec.scaling.centring:centre",
    ),
    constant=1, control=F(1, 2),
)  # fmt: skip
def _centring_shift(c: Fraction) -> Sequence[Goal]:
    def left(x: Terms) -> Expr:
        scale = c if isinstance(x["q"], Fraction) else rat(c)
        return x["q"] * (x["k"] - x["mu"]) - x["q"] * (x["l"] - scale * x["mu"])

    return [identity("one dim", "q k l mu", left, lambda x: x["q"] * x["k"] - x["q"] * x["l"])]
