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
from dmverify.kernel.limits import MOST_BLOCKS, MOST_KEYS, check_int, check_sizes
from dmverify.kernel.parameters import pack
from dmverify.spec.case import Case, Inputs
from dmverify.spec.problem import Problem

MANY = 1 << 17  # pairs of batch and head
CTAS = ((1 << 31) - 1, 65_535, 65_535)  # in each dimension of a grid


def meta(batch, n, heads, d=64):
    return torch.empty(batch, n, heads, d, dtype=torch.bfloat16, device="meta")


def launched(monkeypatch, q, k, mode="matched", centre_k="blocked-mean"):
    """Name, grid and arguments of every launch of a forward and a backward."""
    found = []

    def start(options, kernel, name, d, *, grid, threads, shared, arguments, **more):
        pack(name, arguments)  # refuses what does not fit
        found.append((name, grid, arguments))

    monkeypatch.setattr(launch, "start", start)
    options = Options(True, mode, False, 0.1, centre_k)
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
    before = ["quantise_first", *["key_means"] * (k[1] > 1024), "quantise_rest", "forward"]
    assert names[: len(before) + 1] == [*before, "quantise_gradient"]
    assert set(names[len(before) + 1 :]) == {"query", "key"}
    for _, grid, _ in found:
        assert all(0 < n <= most for n, most in zip(grid, CTAS, strict=False))


def blocks(arguments):
    """CTAs that each operand of a launch asks for."""
    return {k[0]: n for k, n in arguments.items() if k.endswith("_blocks")}


@pytest.mark.parametrize("keys", [1, 1024, 1025, 4096])
def test_the_quantiser_has_ctas_for_each_block_of_each_head(monkeypatch, keys):
    q, k = meta(3, 130, 400), meta(3, keys, 200)
    first, *means, rest, _, gradient = launched(monkeypatch, q, k)[: 4 + (keys > 1024)]
    of_k = 600 * -(-keys // 128)
    assert blocks(first[2]) == {"k": of_k, "v": of_k}
    assert first[1] == (2 * of_k,)  # sums of K, and V
    assert blocks(rest[2]) == {"k": of_k, "q": 2400, "v": of_k}
    assert rest[1] == (of_k + 2400,)
    assert blocks(gradient[2]) == {"g": 2400}
    assert gradient[1] == (2400,)
    assert [one[:2] for one in means] == [("key_means", (600,))] * (keys > 1024)


def test_one_launch_quantises_all_where_keys_keep_their_mean(monkeypatch):
    q, k = meta(1, 130, 4), meta(1, 300, 2)
    (name, grid, arguments), after, *_ = launched(monkeypatch, q, k, centre_k="none")
    assert (name, after[0]) == ("quantise_rest", "forward")
    assert blocks(arguments) == {"k": 6, "q": 8, "v": 6}
    assert grid == (20,)


def test_the_kernels_read_one_dimension_of_the_grid():
    for kernel in KERNELS:
        found = set(re.findall(r"(?:blockIdx|gridDim|ctaid)\.[xyz]", source(kernel)))
        assert found - {"ctaid.x"} == {"blockIdx.x"}


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
        check_int(value)


def test_integers_that_fit_pass_as_they_are():
    for value in (0, -1, (1 << 31) - 1, -(1 << 31)):
        assert check_int(value) == value


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
