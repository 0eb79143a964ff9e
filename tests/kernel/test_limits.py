"""Sizes up to the limits reach every launch as they are; sizes above them are refused by name."""

import re

import numpy as np
import pytest
import torch

from dmverify.conformance.adapter import Unsupported
from dmverify.conformance.kernels import bundled
from dmverify.kernel import launch
from dmverify.kernel.build import KERNELS, source
from dmverify.kernel.errors import UnsupportedError
from dmverify.kernel.launch import Options
from dmverify.kernel.limits import MOST_BLOCKS, MOST_KEYS, check_sizes, head_grid
from dmverify.kernel.start import argument
from dmverify.spec.case import Case, Inputs
from dmverify.spec.problem import Problem

MANY = 1 << 17  # pairs of batch and head
CTAS = ((1 << 31) - 1, 65_535, 65_535)  # in each dimension of a grid


def meta(batch, n, heads, d=64):
    return torch.empty(batch, n, heads, d, dtype=torch.bfloat16, device="meta")


def launched(monkeypatch, q, k, mode="matched"):
    """Name, grid and arguments of every launch of a forward and a backward."""
    found = []

    def start(options, kernel, name, d, *, grid, threads, shared, arguments, split=False):
        found.append((name, grid, list(map(argument, arguments))))

    monkeypatch.setattr(launch, "start", start)
    options = Options(True, mode, False, 0.1)
    shape, operands = launch.prepare(q, k, k, options, backward=True)
    launch.backward(shape, operands, launch.forward(shape, operands, options), q, options)
    return found


@pytest.mark.parametrize(
    ("q", "k"),
    [
        ((MANY, 1, 1), (MANY, 2, 1)),
        ((1, 2, MANY), (1, 1, MANY)),
        ((1, 2, MANY), (1, 1, 1)),
        ((65_537, 2, 1), (65_537, 2, 1)),
        ((1, 128 * MOST_BLOCKS // 8, 8), (1, MOST_KEYS, 8)),
        ((MOST_BLOCKS, 1, 1), (MOST_BLOCKS, 1, 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", ["matched", "associated"])
def test_every_launch_of_a_served_size_fits_its_grid_and_its_integers(monkeypatch, q, k, mode):
    found = launched(monkeypatch, meta(*q), meta(*k), mode)
    names = [name for name, _, _ in found]
    assert names[:5] == ["key_sums", "quantise_key", "quantise_query", "quantise_value", "forward"]
    assert names[5] == "quantise_gradient"
    assert set(names[6:]) == {"query", "key"}
    for _, grid, _ in found:
        assert all(0 < n <= most for n, most in zip(grid, CTAS, strict=False))


@pytest.mark.parametrize("heads", [1, 2, 65_535, 65_536, 65_537, MANY, MANY + 1, MOST_BLOCKS])
def test_every_head_has_one_place_in_the_quantisers_grid(heads):
    width, layers = head_grid(heads)
    assert max(width, layers) <= 65_535
    places = width * layers  # head_index() counts them without a gap, from 0
    assert heads <= places < heads + layers
    assert layers == 1 or heads > 65_535  # up to there the grid is as it was


def test_the_quantiser_has_ctas_for_each_block_of_each_head(monkeypatch):
    q, k = meta(3, 130, 40_000), meta(3, 300, 20_000)
    for name, grid, arguments in launched(monkeypatch, q, k)[:6]:
        wide = name in ("quantise_query", "quantise_gradient")
        heads, blocks = (120_000, 2) if wide else (60_000, 3)
        if name != "forward":
            assert grid == (blocks, *head_grid(heads))
            assert arguments[-1].value == heads  # where the kernels stop


def test_the_kernels_but_the_quantiser_read_one_dimension_of_the_grid():
    for kernel in KERNELS:
        found = set(re.findall(r"(?:blockIdx|gridDim|ctaid)\.[xyz]", source(kernel)))
        more = {"blockIdx.y", "blockIdx.z", "gridDim.x", "gridDim.y"}
        assert found - {"ctaid.x"} == {"blockIdx.x", *(more if kernel == "quantise" else ())}


@pytest.mark.parametrize(
    ("q", "k", "rule"),
    [
        ((1, 1, 1), (1, MOST_KEYS + 1, 1), "Nk <= 131072"),
        ((MOST_BLOCKS + 1, 1, 1), (MOST_BLOCKS + 1, 1, 1), "8388609 blocks of queries"),
        ((1, 128 * MOST_BLOCKS + 1, 1), (1, 1, 1), "8388609 blocks of queries"),
        ((1 << 14, 1, 1), (1 << 14, MOST_KEYS, 1), "16777216 blocks of keys"),
    ],
    ids=str,
)
def test_a_size_above_a_limit_is_refused_before_any_launch(monkeypatch, q, k, rule):
    with pytest.raises(UnsupportedError, match=rule):
        launched(monkeypatch, meta(*q), meta(*k))
    with pytest.raises(UnsupportedError, match=rule):
        check_sizes((*q, 64), (*k, 64))


@pytest.mark.parametrize("value", [1 << 31, -(1 << 31) - 1, 1 << 40])
def test_an_integer_that_would_wrap_is_refused(value):
    with pytest.raises(UnsupportedError, match=f"{value}.*32 bits"):
        argument(value)


def test_integers_that_fit_pass_as_they_are():
    for value in (0, -1, (1 << 31) - 1, -(1 << 31)):
        assert argument(value).value == value


def test_as_many_keys_as_there_are_words_for():
    tiles = re.search(r"TABLE_TILES = (\d+);", source("query"))
    assert tiles is not None
    assert int(tiles[1]) * 64 == MOST_KEYS


def test_a_case_above_a_limit_is_unsupported_with_the_limit(monkeypatch):
    monkeypatch.setattr(bundled, "hopper_present", lambda: True)
    problem = Problem(1, 1, 1, 1, MOST_KEYS + 1, 64, causal=False)
    inputs = Inputs(**{n: np.zeros(problem.shapes()[n], np.float32) for n in ("q", "k", "v", "do")})
    support = bundled.Bundled().supports(Case("own", "bundled", problem, inputs))
    assert isinstance(support, Unsupported)
    assert "Nk <= 131072" in support.reason
