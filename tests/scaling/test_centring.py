"""Key centring: the stated order of the bundled mean, and what centring may not change."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from dmverify.errors import InputError, UnknownNameError
from dmverify.spec.formats import BF16
from dmverify.spec.scaling import centre, token_mean


def keys(tokens: int, *, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    spread = np.exp2(rng.integers(-12, 3, (tokens, 5)))  # so that float32 sums do round
    return BF16.round((spread * (1 + rng.standard_normal((tokens, 5)))).astype(np.float32))


def blocked_mean_of_one_channel(column: np.ndarray) -> np.float32:
    """The order of the rule in scalar float32 additions."""
    total = np.float32(0)
    for start in range(0, len(column), 128):
        block = column[start : start + 128]
        lanes = []
        for lane in range(8):
            partial = np.float32(0)
            for value in block[lane::8]:
                partial = np.float32(partial + value)
            lanes.append(partial)
        subtotal = lanes[0]
        for partial in lanes[1:]:
            subtotal = np.float32(subtotal + partial)
        total = np.float32(total + subtotal)
    return np.float32(total / np.float32(len(column)))


@pytest.mark.parametrize("tokens", [1, 2, 7, 8, 9, 127, 128, 129, 300, 1024])
def test_blocked_mean_adds_in_the_stated_order(tokens):
    k = keys(tokens, seed=tokens)
    want = [blocked_mean_of_one_channel(k[:, c]) for c in range(k.shape[1])]
    assert token_mean(k, "blocked-mean")[0].tolist() == want


def test_the_order_can_be_told_from_another():
    k = keys(1024)
    sequential = np.add.accumulate(k, axis=0, dtype=np.float32)[-1] / np.float32(1024)
    assert not np.array_equal(token_mean(k, "blocked-mean")[0], sequential)


@pytest.mark.parametrize("tokens", [1, 100, 1000])
def test_means_are_near_the_exact_one(tokens):
    k = keys(tokens)
    for channel in range(k.shape[1]):
        numbers = [Fraction(float(v)) for v in k[:, channel]]
        exact = sum(numbers) / tokens
        size = sum(abs(v) for v in numbers) / tokens
        once, blocked = (token_mean(k, r)[0, channel] for r in ("mean", "blocked-mean"))
        assert abs(Fraction(float(once)) - exact) <= Fraction(1, 2**24) * abs(exact)
        depth = 16 + 8 + -(-tokens // 128) + 1  # additions on the longest path, and the division
        assert abs(Fraction(float(blocked)) - exact) <= depth * Fraction(1, 2**24) * size


def test_centring_subtracts_in_float32_and_none_returns_the_keys():
    k = keys(50)
    assert np.array_equal(centre(k, "mean"), k - token_mean(k, "mean"))
    assert centre(k, "none") is k
    assert not token_mean(k, "none").any()


def test_a_mean_of_negative_zeros_is_positive_zero():
    k = np.full((3, 2), -0.0, dtype=np.float32)
    assert not np.signbit(token_mean(k, "blocked-mean")).any()
    assert np.signbit(centre(k, "blocked-mean")).all()


def test_an_offset_leaves_the_amax():
    k = keys(64) + np.float32(64)
    assert np.abs(centre(k, "blocked-mean")).max() < 32 < np.abs(k).max()


@pytest.mark.parametrize("rule", ["none", "mean", "blocked-mean"])
@pytest.mark.parametrize("tokens", [0, 1, 129])
def test_torch_gives_the_bits_of_numpy(rule, tokens):
    k = keys(tokens)[None]
    assert np.array_equal(token_mean(torch.from_numpy(k), rule).numpy(), token_mean(k, rule))
    assert centre(torch.from_numpy(k), rule).numpy().tolist() == centre(k, rule).tolist()


def test_wrong_inputs():
    with pytest.raises(UnknownNameError, match="blocked-mean"):
        centre(keys(2), "median")
    with pytest.raises(InputError, match="float32"):
        centre(keys(2).astype(np.float64), "mean")
