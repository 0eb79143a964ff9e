"""Geometry: which element has which scale, ragged and empty extents, transposes, torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dmverify.spec.scaling import SCALE_RULES, Tiling, amax, quantise, spread

TILINGS = [Tiling(64), Tiling(None), Tiling(1, 5), Tiling(7, 3), Tiling(64, 64), Tiling(None, 1)]
SHAPES = [(1, 1), (7, 6), (65, 9), (2, 3, 20, 13)]


def sample(shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return (rng.standard_normal(shape) * np.exp2(rng.integers(-9, 9, shape))).astype(np.float32)


@pytest.mark.parametrize("tiling", TILINGS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_element_meets_the_amax_of_its_own_tile(tiling, shape):
    x = sample(shape)
    rows, columns = tiling.rows or shape[-2], tiling.columns or shape[-1]
    largest = amax(x, tiling)
    wide = np.broadcast_to(spread(largest, tiling, shape), shape)
    for i in range(shape[-2]):
        for j in range(shape[-1]):
            top, left = i // rows * rows, j // columns * columns
            part = np.abs(x[..., top : top + rows, left : left + columns]).max(axis=(-2, -1))
            assert np.array_equal(wide[..., i, j], part)
            assert np.array_equal(largest[..., i // rows, j // columns], part)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (2, 0, 4)])
@pytest.mark.parametrize("tiling", TILINGS, ids=str)
def test_empty_matrices_have_no_tiles_along_the_empty_axis(tiling, shape):
    got = quantise(np.zeros(shape, np.float32), "amax", block=tiling)
    assert got.codes.shape == got.dequantised().shape == shape
    assert got.scales.size == 0


def test_row_scales_of_ragged_blocks():
    x = np.ones((130, 4), np.float32) * np.arange(1, 131, dtype=np.float32)[:, None]
    got = quantise(x, "amax", block=64)
    want = np.repeat(np.array([64, 128, 130], np.float32) / np.float32(448), [64, 64, 2])
    assert np.array_equal(got.row_scales(), want)
    whole = quantise(x, "amax", block=None)
    assert whole.row_scales().shape == (130,)


def test_the_transpose_shares_codes_and_scales():
    x = sample((130, 70))
    got = quantise(x, "amax", block=64)
    assert np.array_equal(got.T.codes, got.codes.T)
    assert np.array_equal(got.T.exact(), got.exact().T)
    assert np.array_equal(got.T.T.element_scales(), got.element_scales())
    again = quantise(np.ascontiguousarray(x.T), "amax", block=64)
    assert not np.array_equal(got.T.exact(), again.exact())  # rounding again is another operand


@pytest.mark.parametrize("rule", list(SCALE_RULES))
@pytest.mark.parametrize("tiling", TILINGS, ids=str)
def test_torch_gives_the_bits_of_numpy(rule, tiling):
    x = sample((2, 130, 70))
    ours, theirs = (quantise(a, rule, block=tiling) for a in (x, torch.from_numpy(x)))
    assert np.array_equal(theirs.codes.numpy(), ours.codes)
    assert np.array_equal(theirs.scales.numpy(), ours.scales)
    assert np.array_equal(theirs.exact().numpy(), ours.exact())
    assert np.array_equal(theirs.dequantised().numpy(), ours.dequantised())
