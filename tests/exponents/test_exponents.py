"""Exponents chosen from numbers: against exact rationals and against arithmetic on bits."""

from fractions import Fraction

import numpy as np

from dmverify.spec.exponents import ceil_log2, max_shift_to_448

NUMBERS = np.concatenate(
    [
        np.ldexp(np.float32(m), np.arange(-120, 121)).astype(np.float32)
        for m in (1.0, 1.0 + 2**-23, 1.5, 1.75, 1.75 + 2**-23, 2.0 - 2**-23)
    ]
)


def test_against_rationals():
    for x, n, k in zip(NUMBERS, ceil_log2(NUMBERS), max_shift_to_448(NUMBERS), strict=True):
        exact = Fraction(float(x))
        if -100 < n < 120:
            assert Fraction(2) ** (int(n) - 1) < exact <= Fraction(2) ** int(n)
        if k < 100:
            assert exact * Fraction(2) ** int(k) <= 448 < exact * Fraction(2) ** (int(k) + 1)


def test_against_exponent_bits():
    """What the kernel computes, infinity and NaN included (integers only)."""
    x = np.concatenate([NUMBERS, np.array([np.inf, np.nan], np.float32)])
    bits = x.view(np.uint32).astype(np.int64)
    want = np.clip(((bits + 0x7FFFFF) >> 23) - 127, -100, 120)
    assert ceil_log2(x).tolist() == want.tolist()
    finite = x[:-1]
    top = (finite.view(np.uint32).astype(np.int64) + 0x1FFFFF) >> 23
    assert max_shift_to_448(finite).tolist() == np.minimum(100, 135 - top).tolist()


def test_zero():
    zero = np.zeros(1, np.float32)
    assert ceil_log2(zero).tolist() == max_shift_to_448(zero).tolist() == [0]
