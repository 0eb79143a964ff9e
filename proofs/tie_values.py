"""What a theorem's variables are in a row of the ledger: the only thing a tie writes by hand.

Each function gives, for one row, pairs of a factor and the variables of one use of the theorem; the
bound is the sum of factor times the theorem's right side. Numbers are exact; a variable that a
right side does not mention (a rounding's own error, say) has no value here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dmverify.proofs.evaluate import BUILT_IN, definition
from dmverify.proofs.statements import get_statement
from dmverify.proofs.ties import Uses
from dmverify.spec.case import F64
from dmverify.spec.constants import constant
from dmverify.spec.ledger.bounds.magnitudes import Magnitudes
from dmverify.spec.ledger.bounds.softmax import codes_error

ONE = Fraction(1)
UNDERFLOW_ERROR, EX2 = constant("UNDERFLOW_ERROR"), constant("EX2")
LARGEST_P = Fraction(2) ** int(constant("P_MAX_EXPONENT"))
RESIDUE, TINY_P = Fraction(1, 2), 2.0**-150
FLUSHED = constant("FLUSH") * LARGEST_P
QUAD = 8 + 1 + 2  # a chain of eight keys, its partner, two folds; and one a window


def exact(x: F64) -> tuple[Fraction, ...]:
    """A row's numbers as rationals."""
    return tuple(Fraction(float(value)) for value in x)


def product(x: Sequence[Fraction], y: Sequence[Fraction]) -> Fraction:
    """The exact inner product."""
    return sum((a * b for a, b in zip(x, y, strict=True)), Fraction(0))


def row(sizes: Magnitudes, i: int) -> tuple[tuple[Fraction, Fraction], ...]:
    """P_j and dP_j - shift, exact."""
    shift = Fraction(float(sizes.block.shift[i]))
    return tuple(
        (p, d - shift)
        for p, d in zip(exact(sizes.block.p[i]), exact(sizes.block.dp[i]), strict=True)
    )


def chain(pairs: Sequence[tuple[Fraction, Fraction]]) -> tuple[Any, ...]:
    """The pairs as an order of ``rocq/Inner``: one product, then fused additions."""
    order: tuple[Any, ...] = ("Product", *pairs[0])
    for pair in pairs[1:]:
        order = ("Fused", order, *pair)
    return order


def top(sizes: Magnitudes, i: int) -> Fraction:
    """The largest |dP - shift|."""
    return max(abs(d) for _, d in row(sizes, i))


def matched(sizes: Magnitudes, i: int) -> Uses:
    """match: the order is one of fused additions, or a stated one of k roundings."""
    yield ONE, {"t": chain(row(sizes, i)), "top": top(sizes, i), "k": QUAD + sizes.windows}


def reciprocal(sizes: Magnitudes, i: int) -> Uses:
    """match where 1 / l, at most 4, is multiplied at the end; the row is what dS reads."""
    pairs, k = row(sizes, i), QUAD + sizes.windows
    yield ONE, {"x": pairs, "k": k, "top": top(sizes, i), "r": constant("RECIPROCAL_MAX")}


def elem(sizes: Magnitudes, i: int) -> Uses:
    """elem: delta, and what the shifted mode calls lo."""
    delta = Fraction(float(sizes.block.delta[i]))
    yield ONE, {"delta": delta, "lo": delta, "r": row(sizes, i)}


def balance(sizes: Magnitudes, i: int) -> Uses:
    """delta and lo have values of their own: the code reads what the kernel had."""
    r, delta = row(sizes, i), Fraction(float(sizes.block.delta[i]))
    yield (
        ONE,
        {
            "t": chain(r), "r": r, "h": (len(r) - 1) * constant("U"), "top": top(sizes, i),
            "delta": delta, "lo": delta,
        },
    )  # fmt: skip


def presented(sizes: Magnitudes, i: int) -> Uses:
    """rec: P, P' and dP."""
    p, before, dp = (exact(getattr(sizes.block, n)[i]) for n in ("p", "p_presented", "dp"))
    yield ONE, {"l": tuple(zip(p, before, dp, strict=True))}


def drift(sizes: Magnitudes, i: int) -> tuple[Fraction, ...]:
    """lambda of each key, by the theorems on its references."""
    p = [Fraction(float(x)) for x in np.maximum(sizes.block.p[i], TINY_P)]
    if not sizes.windowed:
        return (Fraction(0),) * len(p)
    below = get_statement("below_reference").claims[0]
    length = definition("Softmax", "lambda")
    return tuple(length(sum(below.terms(P=x, n=Fraction(len(p)))), RESIDUE, EX2) for x in p)


def quotient(sizes: Magnitudes) -> Fraction:
    """Relative error of 1 / l and its product, or of e / l."""
    return (1 + constant("U")) ** (2 if sizes.windowed else 1) - 1


def row_sum(sizes: Magnitudes, i: int) -> Fraction:
    """Relative error of l: the least of what the theorems on sums say of the row."""
    names = ("stated_sum",) if sizes.quad else ("sum_any_tree", "dominated")
    (_, tree), (_, spine) = *summed(sizes, i), *largest_first(sizes, i)
    claims = [get_statement(name).claims[0] for name in names]
    said = (sum(claim.terms(**tree, **spine), Fraction(0)) for claim in claims)
    return min(said) / sum(exact(sizes.block.p[i]), Fraction(0))


def norm(sizes: Magnitudes, i: int) -> Uses:
    """norm."""
    lam, p = drift(sizes, i), exact(sizes.block.p[i])
    yield (
        ONE,
        {
            "n": len(p), "P": p.__getitem__, "lam": lam.__getitem__, "s": row_sum(sizes, i),
            "q": quotient(sizes), "f": FLUSHED if sizes.windowed else UNDERFLOW_ERROR,
            "delta": Fraction(float(sizes.block.delta[i])),
        },
    )  # fmt: skip


def compound(*errors: Fraction) -> Fraction:
    """(1 + a)(1 + b)... - 1."""
    product = ONE
    for each in errors:
        product *= 1 + each
    return product - 1


def inverse(error: Fraction) -> Fraction:
    """r / (1 - r)."""
    return error / (1 - error)


def between(sizes: Magnitudes, i: int) -> tuple[Fraction, ...]:
    """pi of each key: what the backward's P is off its exact share."""
    exp = BUILT_IN["exp"]
    errors = (quotient(sizes), inverse(row_sum(sizes, i)))
    return tuple(compound(exp(x) - 1, *errors) for x in drift(sizes, i))


def code_error(sizes: Magnitudes, i: int) -> tuple[Fraction, ...]:
    """eps of each key, by the theorem on a scaled cast."""
    claim, p = get_statement("code_error_coded").claims[0], exact(sizes.block.p[i])
    largest = LARGEST_P if sizes.windowed else constant("E4M3_MAX")
    floor = max(p) * constant("E4M3_ABSOLUTE") / largest * _residue(sizes, i)
    grown = [1 + inverse(x) for x in between(sizes, i)]
    lost = UNDERFLOW_ERROR * (1 + constant("U")) ** 3  # as in the theorem `coded_error` of a row
    return tuple(
        sum(claim.terms(P=x, F=floor, g=g)) + lost * g for x, g in zip(p, grown, strict=True)
    )


def _residue(sizes: Magnitudes, i: int) -> Fraction:
    """How far a window's largest e may miss 2^8 (window-argument, ex2-error)."""
    if not sizes.windowed:
        return ONE
    r = min(2 * float(constant("U")) * (float(sizes.logit[i]) + 8), 0.5)
    return Fraction(2.0**r) * (1 + inverse(EX2))


def code_sum(sizes: Magnitudes, i: int) -> Fraction:
    """nu: the sum of the codes and its reciprocal; on the tensor core as the code has it."""
    if sizes.windowed:
        return inverse(Fraction(float(codes_error(sizes)[i])))
    keys, u = sizes.block.p.shape[1], constant("U")
    return inverse(compound((keys - 1) * u, u, u))


def dp_sizes(sizes: Magnitudes, i: int) -> tuple[Fraction, ...]:
    """dP* of each key, exact."""
    do = exact(sizes.block.do[i])
    return tuple(product(do, exact(v)) for v in sizes.block.v)


def prob(sizes: Magnitudes, i: int) -> Uses:
    """pi has the row sum's error only where the two passes' sums differ."""
    p, eps, dp = exact(sizes.block.p[i]), code_error(sizes, i), dp_sizes(sizes, i)
    codes = sizes.contract.normaliser == "codes"
    exp = BUILT_IN["exp"]
    own = [compound(exp(x) - 1, quotient(sizes)) for x in drift(sizes, i)]
    pi = between(sizes, i) if codes else own
    nu = code_sum(sizes, i)
    yield (
        ONE,
        {
            "n": len(p), "P": p.__getitem__, "eps": eps.__getitem__, "pi": pi.__getitem__,
            "dP": dp.__getitem__, "f": FLUSHED if sizes.windowed else UNDERFLOW_ERROR,
            "nu": nu,
        },
    )  # fmt: skip


def second_code(sizes: Magnitudes, i: int) -> Uses:
    """The second key's code; the largest P of its group makes the scale."""
    p = exact(sizes.block.p[i])
    top = max(range(len(p)), key=p.__getitem__)
    yield ONE, {"P": p.__getitem__, "head": lambda j: top, "s": row_sum(sizes, i), "j": 1}


def own_prob(sizes: Magnitudes, i: int) -> Uses:
    """associated: P is the code's share, rounded twice; either rounding may underflow."""
    p, dp = exact(sizes.forward_p[i]), dp_sizes(sizes, i)
    roundings = {"k": definition("Binary32", "path")(2), "f": 2 * UNDERFLOW_ERROR}
    yield ONE, {"n": len(p), "P'": p.__getitem__, "dP": dp.__getitem__, **roundings}


def own_norm(sizes: Magnitudes, i: int) -> Uses:
    """The same of the row's sum, which misses 1 by nu."""
    roundings = {"k": definition("Binary32", "path")(2), "f": 2 * UNDERFLOW_ERROR}
    delta, keys = Fraction(float(sizes.block.delta[i])), sizes.block.p.shape[1]
    yield ONE, {"n": keys, "nu": code_sum(sizes, i), "delta": delta, **roundings}


def out(sizes: Magnitudes, i: int) -> Uses:
    """out: each channel's store, times its dO."""
    do, o = exact(sizes.block.do_read[i]), exact(sizes.block.o32[i])
    return ((abs(weight), {"x": x}) for weight, x in zip(do, o, strict=True))


def dot(sizes: Magnitudes, i: int) -> Uses:
    """dot: the order of the channels is one of fused additions."""
    o = exact(sizes.block.o[i])
    pairs = tuple(zip(exact(sizes.block.do_read[i]), o, strict=True))
    yield ONE, {"t": chain(pairs), "top": max(map(abs, o))}


def grad(sizes: Magnitudes, i: int) -> Uses:
    """grad: each channel's cast, times what it is multiplied with."""
    p = exact(sizes.forward_p[i])
    scale = Fraction(float(sizes.block.do_scale[i]))
    o = [product(p, exact(v)) for v in sizes.block.v_forward.T]
    given = exact(sizes.block.do_input[i])
    yield ONE, {"l": tuple((x, scale, None, o[k]) for k, x in enumerate(given))}


def accdp(sizes: Magnitudes, i: int) -> Iterator[tuple[Fraction, dict[str, Any]]]:
    """accdP: one dot a key, times its P."""
    do, p = exact(sizes.block.do[i]), exact(sizes.block.p[i])
    for j, v in enumerate(map(exact, sizes.block.v)):
        factors = tuple((a, b, None, None) for a, b in zip(do, v, strict=True))
        yield p[j], {"l": factors, "F": max(map(abs, do)) + max(map(abs, v))}


def acc(sizes: Magnitudes, i: int) -> Iterator[tuple[Fraction, dict[str, Any]]]:
    """acc: one dot a channel, times its dO."""
    weights, norm = exact(sizes.block.weights[i]), Fraction(float(sizes.block.norm[i]))
    for k, weight in enumerate(exact(sizes.block.do_read[i])):
        v = exact(sizes.block.v_forward[:, k])
        factors = tuple((a, b, None, None) for a, b in zip(weights, v, strict=True))
        largest = {"V": max(map(abs, v)), "W": max(weights)}
        yield abs(weight), {"l": factors, "row": norm, **largest}


def nearest(sizes: Magnitudes, i: int) -> Uses:
    """The tile's scale is 1: dS is in units of its codes."""
    yield ONE, {"l": exact(sizes.block.ds[i])}


def zero_sum(sizes: Magnitudes, i: int) -> Iterator[tuple[Fraction, dict[str, Any]]]:
    """Chain t of a tile holds the keys 8 J + 2 t + b, ascending."""
    ds = exact(sizes.block.ds[i])
    for lane in range(4):
        keys = [8 * group + 2 * lane + b for group in range(8) for b in range(2)]
        yield ONE, {"l": tuple((ds[j], ds[j]) for j in keys if j < len(ds)), "s": ONE}


def leaves(numbers: Sequence[Fraction]) -> tuple[Any, ...]:
    """The numbers as a tree of ``rocq/Sums``: a chain."""
    tree: tuple[Any, ...] = ("Leaf", numbers[0])
    for x in numbers[1:]:
        tree = ("Node", tree, ("Leaf", x))
    return tree


def summed(sizes: Magnitudes, i: int) -> Uses:
    """The sum of P, in an order of any shape."""
    yield ONE, {"t": leaves(exact(sizes.block.p[i])), "k": QUAD - 1 + sizes.windows}


def largest_first(sizes: Magnitudes, i: int) -> Uses:
    """The largest term's way to the root meets every other term by itself."""
    p = sorted(exact(sizes.block.p[i]), reverse=True)
    spine: tuple[Any, ...] = ("Top", p[0])
    for x in p[1:]:
        spine = ("Join", spine, ("Leaf", x))
    yield ONE, {"s": spine}


def instructions(sizes: Magnitudes, i: int) -> Uses:
    """Two of them. 2^E is at most the largest product, codes taken as 2^-6 at least, or the sum."""
    do, v = exact(sizes.block.do[i]), exact(sizes.block.v[0])
    least = constant("E4M3_SMALLEST_NORMAL")
    products = tuple(abs(a * b) for a, b in zip(do, v, strict=True))
    tall = max(max(abs(a), least) * max(abs(b), least) for a, b in zip(do, v, strict=True))
    later = max(tall, sum(products, Fraction(0)))
    yield (
        ONE,
        {"m": Fraction(0), "steps": (((tall, tall), products), ((later, later), products))},
    )
