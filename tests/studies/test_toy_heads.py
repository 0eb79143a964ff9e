"""The inputs are what the article says: moments, spread, outliers."""

import numpy as np
import pytest

from dmverify.studies.toy_heads import TOY, toy_heads


@pytest.fixture(scope="module")
def plain():
    return toy_heads("gaussian", 1.0, seed=0)


@pytest.fixture(scope="module")
def outlier():
    return toy_heads("outlier", 1.0, seed=0)


def test_standard_normal(plain):
    for name, x in plain.items():
        assert x.shape == TOY.shapes()[name]
        assert abs(x.mean()) < 0.01
        assert abs(x.std() - 1) < 0.01
        assert abs((x.astype(float) ** 4).mean() - 3) < 0.1


def test_spread_multiplies_q_only(plain):
    wide = toy_heads("gaussian", 4.0, seed=0)
    assert np.array_equal(wide.q, 4 * plain.q)
    assert all(np.array_equal(getattr(wide, n), getattr(plain, n)) for n in ("k", "v", "do"))


def test_outliers(plain, outlier):
    assert np.array_equal(outlier.q, plain.q)
    assert np.array_equal(outlier.k, plain.k)
    std = outlier.v.std(axis=(0, 1, 2))
    assert np.all(np.abs(std[::16] - 10) < 0.5)
    assert np.all(np.abs(np.delete(std, np.s_[::16]) - 1) < 0.05)
    factor = np.linalg.norm(outlier.do, axis=-1) / np.linalg.norm(plain.do, axis=-1)
    logs = np.log(factor)
    assert abs(logs.mean()) < 0.1
    assert abs(logs.std() - 1) < 0.1


def test_seeds_differ_and_repeat(plain):
    assert np.array_equal(toy_heads("gaussian", 1.0, seed=0).v, plain.v)
    assert not np.array_equal(toy_heads("gaussian", 1.0, seed=1).v, plain.v)
