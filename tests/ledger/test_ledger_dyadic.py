"""Exact sums and products against fractions.Fraction."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dmverify.errors import InputError
from dmverify.spec.ledger.dyadic import exact_dot, exact_matmul, exact_sum
from dmverify.spec.ledger.rows import Rows

ANY = st.floats(allow_nan=False, allow_infinity=False, width=64)
EASY = settings(max_examples=60, deadline=None)


def dot(x, y):
    return sum((Fraction(a) * Fraction(b) for a, b in zip(x, y, strict=True)), Fraction(0))


@EASY
@given(arrays(np.float64, (3, 7), elements=ANY))
def test_sum_is_exact(x):
    assert exact_sum(x).fractions() == [dot(row, np.ones(7)) for row in x]


@EASY
@given(arrays(np.float64, (3, 5), elements=ANY), arrays(np.float64, (3, 5), elements=ANY))
def test_dot_is_exact(x, y):
    assert exact_dot(x, y).fractions() == [dot(a, b) for a, b in zip(x, y, strict=True)]


@pytest.mark.parametrize("span", [0, 20, 150])
def test_dot_with_a_matrix_product_is_exact(span):
    rng = np.random.default_rng(span)

    def wild(*shape):
        x = rng.standard_normal(shape) * np.exp2(rng.integers(-span, span + 1, shape))
        return np.where(rng.random(shape) < 0.2, 0.0, x)

    x, y, w = wild(4, 9), wild(6, 9), wild(4, 6)
    expected = [sum(Fraction(w[i, j]) * dot(x[i], y[j]) for j in range(6)) for i in range(4)]
    assert exact_dot(w, exact_matmul(x, y)).fractions() == expected


def test_sums_survive_what_float64_cannot():
    x = np.array([[1e300, 1.0, -1e300, 5e-324], [2.0**53, 1.0, -(2.0**53), 0.0]])
    assert exact_sum(x).fractions() == [1 + Fraction(5e-324), Fraction(1)]
    assert x.sum(axis=1).tolist() != [1.0, 1.0]  # the naive sum must fail for this to be a test


def test_long_rows_cross_the_batches_of_the_bins():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 700_001)) * np.exp2(rng.integers(-40, 40, (3, 700_001)))
    integers = [sum(int(v) for v in np.ldexp(row, 110)) for row in x]
    assert exact_sum(x).fractions() == [Fraction(n, 1 << 110) for n in integers]


def test_empty_rows_are_zero():
    assert exact_sum(np.zeros((2, 0))).fractions() == [0, 0]
    assert (
        exact_dot(np.ones((2, 3)), exact_matmul(np.zeros((2, 4)), np.ones((3, 4))))
        .equals(Rows.zeros(2))
        .all()
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_numbers_are_refused(bad):
    x = np.array([[1.0, bad]])
    with pytest.raises(InputError, match="finite"):
        exact_sum(x)
    with pytest.raises(InputError, match="finite"):
        exact_matmul(x, np.ones((1, 2)))


RATIONAL = st.tuples(ANY, ANY.filter(bool))


@EASY
@given(st.lists(RATIONAL, min_size=1, max_size=4))
def test_rows_add_and_multiply_as_fractions(pairs):
    top, bottom = (exact_sum(np.array([[p[i]] for p in pairs])) for i in (0, 1))
    f, g = (np.array([Fraction(p[i]) for p in pairs], dtype=object) for i in (0, 1))
    quotient = top * bottom.inverse()
    assert quotient.fractions() == list(f / g)
    assert (quotient + top).fractions() == list(f / g + f)
    assert (quotient - quotient).equals(Rows.zeros(len(pairs))).all()
    assert (-quotient * bottom).fractions() == list(-f)


def test_to_float_rounds_once():
    x = np.array([[2.0**53, 1.0, 2.0**-30], [1.0, 0.0, 0.0]])
    third = exact_sum(np.array([[1.0], [3.0]])).inverse()
    assert (exact_sum(x) * third).to_float().tolist() == [2.0**53 + 2, 1 / 3]


def test_the_inverse_of_zero_is_refused():
    with pytest.raises(ZeroDivisionError):
        Rows.zeros(2).inverse()
