"""The Hopper bits of the steps: where they must agree, and what they must obey."""

import numpy as np
import pytest
import torch

from dmverify.errors import ContractError
from dmverify.spec.arithmetic import Bits, Double
from dmverify.spec.attention import interpret
from dmverify.spec.attention.casts import zero_sum
from dmverify.spec.attention.num import Num
from dmverify.spec.case import Inputs
from dmverify.spec.contracts import ARTICLE, BUNDLED, DELTAS, DS_CASTS, get_contract
from dmverify.spec.formats import E4M3
from dmverify.spec.problem import Problem
from tests.attention.oracle import attention, gaussian

PROBLEM = Problem(1, 2, 1, 66, 130, 32)


def bits_of(outputs):
    return {name: x.view(np.uint32) for name, x in outputs.items()}


def same_bits(one, other):
    a, b = bits_of(one), bits_of(other)
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("cast", DS_CASTS)
def test_numpy_and_torch_give_the_same_bits(delta, cast):
    contract = get_contract("bundled", delta=delta, ds_cast=cast)
    inputs = gaussian(PROBLEM, seed=3, spread=2.0)
    here = interpret(contract, PROBLEM, inputs, Bits()).outputs
    there = interpret(contract, PROBLEM, inputs, Bits(torch.from_numpy)).outputs
    assert same_bits(here, there)


def test_the_comparison_sees_one_bit():
    inputs = gaussian(PROBLEM, seed=3)
    outputs = interpret(BUNDLED, PROBLEM, inputs, Bits()).outputs
    other = interpret(BUNDLED, PROBLEM, inputs, Bits()).outputs
    other.dk.view(np.uint32)[0, 17, 0, 5] ^= 1 << 16
    assert not same_bits(outputs, other)


def test_errors_are_those_of_fp8():
    """Relative errors near the article's (4.6 % of O, 6.3 % of dQ at spread 1)."""
    problem = Problem(1, 4, 4, 512, 512, 64)
    inputs = gaussian(problem)
    outputs = interpret(BUNDLED, problem, inputs, Bits()).outputs
    expected = attention(problem, inputs)
    limits = {"o": (0.04, 0.05), "dq": (0.055, 0.07), "dk": (0.055, 0.07), "dv": (0.04, 0.055)}
    for name, (low, high) in limits.items():
        error = np.linalg.norm(getattr(outputs, name) - expected[name])
        assert low < error / np.linalg.norm(expected[name]) < high, name


@pytest.mark.parametrize("direction", ["rising", "falling"])
def test_the_lazy_reference_moves(direction):
    """Logits that climb by 100 binades from window to window: R must follow, and O stay right."""
    problem = Problem(1, 1, 1, 64, 256, 32, causal=False, softmax_scale=1.0)
    base = gaussian(problem, seed=4)
    k = np.zeros_like(base.k)
    steps = (
        np.repeat(np.arange(4), 64) if direction == "rising" else np.repeat(np.arange(4)[::-1], 64)
    )
    k[0, :, 0, 0] = 64.0 * steps
    q = np.zeros_like(base.q)
    q[..., 0] = 1.0
    inputs = Inputs(q, k, base.v, base.do)
    outputs = interpret(BUNDLED, problem, inputs, Bits()).outputs
    top = np.flatnonzero(steps == 3)
    mean = inputs.v[0, top, 0].mean(0)
    assert np.abs(outputs.o[0, :, 0] - mean).max() < 0.03 * np.abs(inputs.v).max()


def test_zero_sum_carries_the_error_to_the_end_of_each_chain():
    rng = np.random.default_rng(5)
    x = rng.uniform(-448, 448, (32, 3, 64)).astype(np.float32)
    seen = rng.random(x.shape) < 0.8
    x[~seen] = 0.0
    arithmetic = Bits()
    codes = zero_sum(Num(x, arithmetic), seen).array
    assert not codes[~seen].any()
    error = (codes.astype(np.float64) - x).reshape(32, 3, 8, 4, 2).sum((2, 4))
    assert np.abs(error).max() <= 16.0
    nearest = (arithmetic.cast(x, E4M3, site="ds", saturate=True) - x).reshape(32, 3, 8, 4, 2)
    assert np.abs(nearest.sum((2, 4))).max() > 16.0  # what the bound would reject


def test_matched_residual_is_at_round_off_and_stale_is_not():
    problem = Problem(1, 2, 2, 192, 192, 64)
    inputs = gaussian(problem, seed=6)

    def residual(delta):
        contract = get_contract("bundled", delta=delta)
        inside = interpret(contract, problem, inputs, Bits(), internals=True).internals
        return np.median(np.abs(inside.ds.sum(-1))[..., 1:] / np.abs(inside.ds).sum(-1)[..., 1:])

    assert residual("matched") < 1e-6
    assert residual("renormalized") < 1e-6
    assert residual("shifted") < 1e-6
    assert residual("stale") > 1e-3


def test_contracts_without_an_order_have_no_bits():
    with pytest.raises(ContractError):
        interpret(ARTICLE, PROBLEM, gaussian(PROBLEM), Bits())


def test_double_is_not_what_bits_compute():
    """The emulator is no float64 in disguise."""
    inputs = gaussian(PROBLEM, seed=7)
    exact = interpret(BUNDLED, PROBLEM, inputs, Double()).outputs
    assert not same_bits(exact, interpret(BUNDLED, PROBLEM, inputs, Bits()).outputs)
