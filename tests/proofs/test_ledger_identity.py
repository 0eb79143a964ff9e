"""The ledger's identity written a second time, with loops over any sizes, against the proofs' own.

The proofs replay an identity by the formulas that they encode, so a slip in them would pass twice.
"""

import random
from fractions import Fraction

import pytest
import z3

from dmverify.proofs import ledger

F = Fraction


def numbers(rng, *shape):
    if len(shape) == 1:
        return [F(rng.randint(-99, 99), rng.randint(1, 9)) for _ in range(shape[0])]
    return [numbers(rng, *shape[1:]) for _ in range(shape[0])]


def dot(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True)), F(0))


def terms(p, weight, dp, ds, do_hat, do, o32, o, v_back, v_for, delta):
    """Each term by its definition; rows of v are keys."""
    made = [dot(weight, column) for column in zip(*v_for, strict=True)]
    exact = [dot(do_hat, row) for row in v_back]
    return {
        "prob": dot([a - b for a, b in zip(p, weight, strict=True)], exact),
        "grad": dot([a - b for a, b in zip(do_hat, do, strict=True)], made),
        "acc": dot(do, made) - dot(do, o32),
        "out": dot(do, o32) - dot(do, o),
        "dot": dot(do, o) - delta,
        "norm": delta * (1 - sum(p)),
        "accdP": dot(p, dp) - dot(p, exact),
        "elem": sum(ds) - dot(p, dp) + delta * sum(p),
        "vmis": dot(weight, exact)
        - sum(dot(do_hat, r) * w for r, w in zip(v_for, weight, strict=True)),
    }


@pytest.mark.parametrize(("keys", "dims"), [(1, 1), (2, 2), (3, 5), (7, 4)])
def test_the_terms_sum_to_the_residual(keys, dims):
    rng = random.Random(keys)
    args = [numbers(rng, keys) for _ in range(4)] + [numbers(rng, dims) for _ in range(4)]
    args += [numbers(rng, keys, dims) for _ in range(2)] + [F(5, 3)]
    found = terms(*args)
    assert sum(found.values()) == sum(args[3])
    assert sum(found.values()) - found["out"] / 2 != sum(args[3])


def test_the_encoding_has_the_same_terms():
    """Two keys, two dims: with c in place of 1 the encoding misses R by (1 - c) out, exactly."""
    rng = random.Random(2)
    p, weight, dp, ds, g, h, o32, o = numbers(rng, 8, 2)
    back, forth, delta = numbers(rng, 2, 2), numbers(rng, 2, 2), F(7, 4)
    found = terms(p, weight, dp, ds, g, h, o32, o, back, forth, delta)
    values = {"e": delta}
    for letter, pair in zip("ptdsghwo", (p, weight, dp, ds, g, h, o32, o), strict=True):
        values |= {f"{letter}{i + 1}": pair[i] for i in (0, 1)}
    for letter, rows in (("b", back), ("f", forth)):
        values |= {f"{letter}{j + 1}{k + 1}": rows[j][k] for j in (0, 1) for k in (0, 1)}
    pairs = [(z3.Real(name), z3.RealVal(str(value))) for name, value in values.items()]
    for c in (F(1), F(1, 2)):
        (goal,) = ledger.assembled(c, consistent=False)
        left, right = (z3.substitute(side, *pairs) for side in goal.conclusion.children())
        missed = z3.simplify(left - right)
        assert F(missed.numerator_as_long(), missed.denominator_as_long()) == (1 - c) * found["out"]
