"""Sums that one term dominates, against random trees of float32 additions."""

from fractions import Fraction

import numpy as np

from dmverify.spec.ledger.bounds.magnitudes import dominated

U = 2.0**-24


def rows(seed, count, least):
    """Terms of which the first is 1 and the others 2^-k, k from 20 to ``least``; (count, 24)."""
    random = np.random.default_rng(seed)
    x = np.ldexp(random.random((count, 24)) + 0.5, -random.integers(20, least, (count, 24)))
    x[:, 0] = 1
    return x.astype(np.float32)


def tree(x, random):
    """Any two partial sums are joined until one is left; often the largest with a single term."""
    parts = [np.float32(v) for v in x]
    while len(parts) > 1:
        at = sorted(random.choice(len(parts), 2, replace=False))
        if random.random() < 0.5:
            at[0] = int(np.argmax(parts))
            at[1] = (at[0] + 1) % len(parts)
        joined = parts[at[0]] + parts[at[1]]
        parts = [v for i, v in enumerate(parts) if i not in at] + [joined]
    return float(parts[0])


def worst_shares(bound):
    """|error| over a bound of it, the largest of a row's trees."""
    random = np.random.default_rng(7)
    x = rows(1, 60, 40)
    allowed = bound(x.astype(np.float64)) * x.astype(np.float64).sum(1)
    found = []
    for row, limit in zip(x, allowed, strict=True):
        exact = sum(Fraction(float(v)) for v in row)
        errors = [abs(float(Fraction(tree(row, random)) - exact)) for _ in range(20)]
        found.append(max(errors) / limit)
    return np.array(found)


def test_no_tree_exceeds_the_bound_and_half_of_it_is_too_little():
    assert worst_shares(dominated).max() <= 1
    assert worst_shares(lambda x: dominated(x) / 2).max() > 1


def test_it_is_far_below_the_general_bound_where_one_term_is_nearly_all():
    x = np.full((1, 512), 2.0**-60)
    x[0, 0] = 1
    assert dominated(x)[0] < 511 * 2.0**-60 * 1.001 + U * 2.0**-50
    equal = np.ones((1, 512))
    assert dominated(equal)[0] <= 2 * 512 * U


def test_an_empty_row_has_no_error():
    assert dominated(np.zeros((2, 5))).tolist() == [0, 0]
