"""The parts against independent computations: formats, regressions, predictions."""

import numpy as np
import pytest
import torch

from dmverify.conformance.families.tomography.designs import design
from dmverify.conformance.families.tomography.setup import Setup
from dmverify.conformance.families.tomography.walsh import (
    exact_ceiling,
    exact_magnitude,
    orthogonal_rows,
    walsh,
)
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.tomography.expected import as_e4m3, expect
from dmverify.conformance.tomography.regression import correlation, slopes
from dmverify.conformance.tomography.stored import detect
from dmverify.errors import ContractError, InputError
from dmverify.spec.contracts import get_contract
from tests.tomography.kernels import e4m3

TORCH = {
    "bfloat16": (torch.bfloat16, 8),
    "float16": (torch.float16, 11),
    "float8_e4m3fn": (torch.float8_e4m3fn, 4),
    "float8_e5m2": (torch.float8_e5m2, 3),
}


@pytest.fixture
def draw():
    """Numbers that do not depend on which tests ran before."""
    return np.random.Generator(np.random.Philox(key=7))


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize("scale", [1.0, 0.25, 0.3, 1e-4])
@pytest.mark.parametrize("seed", [7, 18])  # 18: 0.3 x 2^i is stored as less than 2^i
def test_half_units_cover_the_store(name, scale, seed):
    dtype, bits = TORCH[name]
    draw = np.random.Generator(np.random.Philox(key=seed))
    x = draw.normal(size=(40, 64, 2, 32)).astype(np.float32) * np.exp(draw.normal(size=32))
    x = x.astype(np.float32)
    few = bits <= 4
    factor = np.float32(scale if few else 2.0 ** round(np.log2(scale)))
    stored = torch.from_numpy(x / factor).clamp(-400, 400).to(dtype).float().numpy() * factor
    inside = np.abs(x / factor) < 400
    found = detect(stored)
    assert found.bits == bits
    assert (found.scale != 1.0) == (few and scale not in (1.0, 0.25))
    half = found.half_units(stored)
    error = np.abs(x.astype(np.float64) - stored)
    assert (error <= half)[inside].all()
    assert (error > half / 2)[inside].any()  # a bar of half the size would be wrong


def test_fp8_with_two_scales_is_refused(draw):
    x = torch.from_numpy(draw.normal(size=4096).astype(np.float32)) * 0.1
    codes = x.to(torch.float8_e5m2).float().numpy()
    codes[::2] *= np.float32(0.3)
    codes[1::2] *= np.float32(0.7)
    with pytest.raises(ContractError):
        detect(codes)


def test_all_zeros_have_no_format():
    found = detect(np.zeros((4, 4), np.float32))
    assert (found.bits, found.half_units(np.zeros(2, np.float32)).tolist()) == (0, [0, 0])


def test_slopes_are_least_squares(draw):
    x, e = draw.normal(size=(200, 3)), draw.normal(size=200)
    t = x @ [1.0, 0.0, -2.0] + 0.1 * e
    due = np.linalg.lstsq(x, t, rcond=None)[0]
    assert np.allclose([estimate.value for estimate in slopes(x, t)], due)


def test_intervals_cover_under_unequal_errors(draw):
    missed = 0
    for _ in range(400):
        x = draw.normal(size=(64, 2))
        t = x @ [1.0, 0.5] + draw.normal(size=64) * np.abs(x[:, 0])
        first, second = slopes(x, t)
        missed += not first.low <= 1.0 <= first.high
        missed += not second.low <= 0.5 <= second.high
    assert missed <= 12  # 800 intervals of 99.9 % with 64 rows each


def test_dependent_columns_say_nothing(draw):
    x = draw.normal(size=(50, 1))
    assert all(np.isinf(e.half_width) for e in slopes(np.hstack([x, 2 * x]), x[:, 0]))


def test_correlation_is_pearsons(draw):
    x = draw.normal(size=100)
    t = x + draw.normal(size=100)
    found = correlation(x, t)
    assert found.value == pytest.approx(np.corrcoef(x, t)[0, 1])
    assert found.low < found.value < found.high
    assert correlation(x, np.ones(100)).half_width == 1.0


@pytest.mark.parametrize("head_dim", [32, 64, 96, 128, 160, 256])
def test_rows_are_orthogonal(head_dim):
    rows = orthogonal_rows(head_dim)
    gram = rows @ rows.T
    assert rows.shape == (head_dim, head_dim)
    assert (gram == gram[0, 0] * np.eye(head_dim)).all()
    assert set(np.unique(rows)) <= {-1.0, 0.0, 1.0}


def test_magnitudes():
    assert [exact_magnitude(x) for x in (0.875, 1.0, 3.0, 8.0)] == [0.875, 0.875, 3.5, 7.0]
    assert [exact_ceiling(x) for x in (3.5, 3.6, 7.0, 7.1)] == [3.5, 7.0, 7.0, 14.0]
    with pytest.raises(InputError):
        walsh(12)


@pytest.mark.parametrize("sizes", [{}, {"heads": 4, "kv_heads": 2, "causal": False}])
def test_expected_is_what_the_simulation_computes(sizes):
    """The float64 model against the simulation's own delta and dS, which share no code with it."""
    contract, kernel = get_contract("article:delta=stale"), Simulation()
    setup = Setup(**{"batch": 1, "heads": 2, "kv_heads": 2, "length": 96, "head_dim": 32} | sizes)
    call = design(setup, contract.name, offset=4.0)[0]
    outputs, inside = kernel.backward(call.case), kernel.internals(call.case)
    made, live = expect(contract, call, answer=outputs), call.weights != 0
    exact = (inside.p * inside.dp).sum(-1)
    left = made.coordinates["shortcut"] + made.coordinates["gradient"]
    assert np.allclose((exact - inside.delta)[live], left[live], atol=2e-5)
    kept = inside.p * (inside.dp - exact[..., None])
    assert np.allclose(made.size[live], np.abs(kept).sum(-1)[live], rtol=1e-4)
    assert (made.size[~live] == 0).all()
    due = inside.ds.sum(-1)[live]
    assert np.corrcoef(made.lean[live], due)[0, 1] > 0.9
    other = np.einsum("bhn,bnhd->bhn", np.ones_like(exact), inside.do.swapaxes(1, 2) * outputs.o)
    assert np.allclose((exact - other)[live], made.coordinates["shortcut"][live], atol=2e-5)


def test_o_in_e4m3_is_torchs(draw):
    x = draw.normal(size=(3, 50, 2, 32)).astype(np.float32)
    assert (as_e4m3(x) == e4m3(x)).all()
    assert (as_e4m3(np.zeros((1, 1), np.float32)) == 0).all()
