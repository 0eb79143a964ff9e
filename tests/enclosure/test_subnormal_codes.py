"""Chains of FP8 wgmma whose codes are subnormal: inside what an unstated order allows.

A code below 2^-6 keeps the exponent -6, so one large code beside it makes the core drop bits that
the products' own sizes would keep.
"""

from dataclasses import replace

import numpy as np
import pytest

from dmverify.spec.arithmetic.enclosure_open import fp8_dot
from dmverify.spec.arithmetic.interval import point
from dmverify.spec.machine.hopper import wgmma_values

NORMAL = 2.0**-6
ROUNDINGS = 9
LARGE, SMALL = 256.0, 0.46875


def chain(codes, others):
    """What the card gives, from 0."""
    left, right = (x.astype(np.float32) for x in (codes, others))
    return wgmma_values(left, right, np.zeros((len(left), len(right)), np.float32))


def inside(x, y, found, tall=NORMAL):
    a, b = (replace(point(z), tall=tall) for z in (x, y))
    limits = fp8_dot(a, b, more=ROUNDINGS)
    return (limits.lo <= found) & (found <= limits.hi)


def sharp(length):
    """One large code, and such as lose half of themselves beside it."""
    codes = np.full((1, length), SMALL)
    codes[0, 0] = LARGE
    return codes


@pytest.mark.parametrize("tall", [NORMAL, None])
@pytest.mark.parametrize("length", [32, 64])
@pytest.mark.parametrize("code", [2.0**-9, 3 * 2.0**-9, 2.0**-7, NORMAL])
def test_a_chain_on_subnormal_codes_is_inside(code, length, tall):
    codes, others = sharp(length), np.full((1, length), code)
    assert inside(codes, others, chain(codes, others), tall).all()


def test_by_their_sizes_alone_it_would_be_outside():
    codes, others = sharp(32), np.full((1, 32), 2.0**-9)
    assert not inside(codes, others, chain(codes, others), tall=0.0).any()


@pytest.mark.parametrize("seed", range(4))
def test_random_codes_with_scales_are_inside(seed):
    rng = np.random.default_rng(seed)
    units = rng.integers(-15, 16, (2, 8, 96)) * 2.0 ** rng.integers(-9, 5, (2, 8, 96))
    x, y = (np.clip(z, -240, 240) for z in units)
    y[:4] *= 2.0**-9 / np.abs(y[:4]).max(initial=2.0**-9)  # rows of subnormal codes alone
    y[:4] = np.round(y[:4] * 2**9) * 2.0**-9
    found, scale = chain(x, y), 2.0**-5
    assert inside(x * scale, y, found * scale, tall=NORMAL).all()
