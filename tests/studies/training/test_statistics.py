"""Intervals and what records say."""

import math

import pytest

from dmverify.studies.training.push import entropies
from dmverify.studies.training.read import largest, last, over_training
from dmverify.studies.training.statistics import interval, paired
from dmverify.studies.training.watch import entropy


def test_an_interval_by_hand():
    found = interval([1.0, 2.0, 3.0])
    assert found.mean == 2
    assert found.half == pytest.approx(4.303 / 3**0.5)
    assert not found.apart
    assert str(found) == "+2.000 ± 2.484"


def test_one_seed_has_no_interval():
    assert interval([1.0]).half is None
    assert not interval([1.0]).apart


def test_differences_are_paired():
    """The seeds' own scatter, far larger, drops out."""
    found = paired([1.11, 2.12, 3.10], [1.0, 2.0, 3.0])
    assert found.apart
    assert found.mean == pytest.approx(0.11)


RECORD = {
    "seeds": [0, 1],
    "points": [
        {"validation": [5.0, 5.0], "layers": [{"residual": [9.0, 9.0]}]},
        {
            "validation": [4.0, None],
            "layers": [{"residual": [1.0, None]}, {"residual": [3.0, 2.0]}],
        },
    ],
}


def test_reading():
    assert last(RECORD) == [4.0, math.inf]
    assert over_training(RECORD, "residual") == [2.0, 2.0]
    assert largest(RECORD, "residual") == [3.0, 2.0]


def test_eps_sharpens_or_flattens_as_stated():
    import torch

    torch.manual_seed(0)
    p = torch.randn(2, 64, 64).tril().masked_fill(torch.ones(64, 64).triu(1) > 0, -torch.inf)
    p = p.double().softmax(-1)
    dp = torch.randn(2, 64, 64).double()
    ds = p * (dp - (p * dp).sum(-1, keepdim=True))
    found = entropies(p, ds + 0.03 * torch.randn(2, 64, 1).double() * p)
    assert found["agree"] == 1
    assert found["slope"] == pytest.approx(1, rel=0.02)
    assert found["sharpened"] < 0 < found["flattened"]
    assert float(entropy(torch.full((1, 8), 0.125))) == pytest.approx(math.log(8))
