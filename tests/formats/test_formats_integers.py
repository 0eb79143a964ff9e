"""INT8 against Python's own rounding of exact rationals, on numpy arrays and torch tensors."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from dmverify.errors import InputError
from dmverify.spec.formats import INT8


def probes():
    halves = np.arange(-600, 601, dtype=np.float32) / 4
    noise = np.random.default_rng(3).standard_normal(4000).astype(np.float32) * 90
    near = np.concatenate([np.nextafter(halves, np.float32(side)) for side in (-900, 900)])
    return np.concatenate([halves, near, noise, np.float32([-0.0, 1e30, -1e30, np.inf, -np.inf])])


def due(x, saturate):
    if not np.isfinite(x):
        return float(np.clip(x, -127, 127)) if saturate else np.nan
    whole = round(Fraction(float(x)))
    if abs(whole) > 127:
        return float(np.clip(whole, -127, 127)) if saturate else np.nan
    return float(whole)


@pytest.mark.parametrize("saturate", [True, False])
def test_rounding_is_pythons(saturate):
    x = probes()
    got = INT8.round(x, saturate=saturate)
    want = np.array([due(one, saturate) for one in x], np.float32)
    assert np.array_equal(got, want, equal_nan=True)
    assert np.array_equal(INT8.round(torch.from_numpy(x), saturate=saturate).numpy(), got, True)


def test_codes_are_the_integers_and_nan_has_none():
    codes = np.arange(-127, 128, dtype=np.int8)
    assert np.array_equal(INT8.encode(INT8.decode(codes)), codes)
    assert np.isnan(INT8.round(np.float32([np.nan]))).all()
    with pytest.raises(InputError, match="INT8"):
        INT8.encode(np.float32([np.nan]))
    with pytest.raises(InputError, match="rounded twice"):
        INT8.round(np.zeros(2))
