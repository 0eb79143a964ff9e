"""The enclosure's operations are those of ``Enclosed``'s induction: the same ends, bit for bit.

The theorem's own definitions are run from its source; the sums and dots, which float64 evaluates,
may be wider by its roundings, and by one float32 number on either side.
"""

from fractions import Fraction

import numpy as np
import pytest

from dmverify.proofs.evaluate import definition
from dmverify.spec.arithmetic.enclosure import Enclosure
from dmverify.spec.arithmetic.interval import Interval
from dmverify.spec.contracts import get_contract

CASES = 60
EXPONENTS = (0, 0, 3, -3, 20, -60, -70, -75)  # products of the last ones underflow
NAMES = {
    "add": "sum_of", "sub": "difference_of", "mul": "product_of", "div": "quotient_of",
    "fma": "fused_of", "negate": "negation_of", "absolute": "size_of", "maximum": "larger_of",
}  # fmt: skip
TAKES = {"fma": 3, "negate": 1, "absolute": 1}


def interval(rng, *, positive=False):
    """Two float32 numbers in order, often on both sides of 0, sometimes one number."""
    ends = rng.standard_normal(2) * 2.0 ** rng.choice(EXPONENTS)
    ends = np.abs(ends) if positive else ends
    low, high = np.sort(ends.astype(np.float32)).astype(np.float64)
    return (low, low) if rng.random() < 0.15 else (low, high)


def as_array(pair):
    lo, hi = (np.array([x]) for x in pair)
    return Interval(lo, lo) if pair[0] == pair[1] else Interval(lo, hi)


def exact(pair):
    return tuple(Fraction(float(x)) for x in pair)


def enclosure():
    return Enclosure(get_contract("article"))


@pytest.mark.parametrize("name", NAMES)
def test_an_operation_has_the_theorems_ends(name):
    a, said = enclosure(), definition("Enclosed", NAMES[name])
    rng = np.random.default_rng(7)
    for _ in range(CASES):
        pairs = [interval(rng) for _ in range(TAKES.get(name, 2))]
        if name == "div":
            pairs[1] = tuple(max(x, 2.0**-80) for x in interval(rng, positive=True))
        found = getattr(a, name)(*map(as_array, pairs))
        lo, hi = said(*map(exact, pairs))
        assert (Fraction(float(found.lo[0])), Fraction(float(found.hi[0]))) == (lo, hi), pairs


def test_a_divisor_that_may_be_0_leaves_nothing_known():
    found = enclosure().div(as_array((1.0, 2.0)), as_array((-1.0, 1.0)))
    assert np.isinf(found.lo[0])
    assert np.isinf(found.hi[0])


def below(x):
    """The largest float32 number that is not above a rational one."""
    found = np.float32(float(x))
    while Fraction(float(found)) > x:
        found = np.nextafter(found, np.float32(-np.inf))
    return float(found)


def holds(found, low, high, error):
    """Whether the ends are the theorem's, or up to a part in a million of the error beyond."""
    wide = error * (1 + Fraction(1, 10**6))
    return all(
        below(end + error) <= most <= below(end + wide)
        for end, most in ((high, found.hi.item()), (-low, -found.lo.item()))
    )


def test_a_sum_in_any_order_is_the_theorems():
    a, said = enclosure(), definition("Enclosed", "sum_error")
    rng = np.random.default_rng(8)
    for _ in range(CASES):
        pairs = [interval(rng) for _ in range(9)]
        lo, hi = (np.array([[p[k] for p in pairs]]) for k in (0, 1))
        low, high = (sum((exact(p)[k] for p in pairs), Fraction(0)) for k in (0, 1))
        error = said(tuple(map(exact, pairs)))
        assert holds(a.sum(Interval(lo, hi), 1, over="tokens"), low, high, error)


def test_a_dot_in_any_order_is_the_theorems():
    a = enclosure()
    said, middle = (definition("Enclosed", name) for name in ("dot_error", "dot_middle"))
    rng = np.random.default_rng(9)
    for _ in range(CASES):
        left, right = ([interval(rng) for _ in range(7)] for _ in range(2))
        x, y = (Interval(*(np.array([[p[k] for p in z]]) for k in (0, 1))) for z in (left, right))
        claim = tuple((exact(p), exact(q)) for p, q in zip(left, right, strict=True))
        found, at = a.dot(x, y, over="tokens"), middle(claim)
        assert holds(found, at, at, said(claim))
