"""The simulation against torch's own float64 attention and autograd, and the article's figures."""

import numpy as np
import pytest
import torch

from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation, cast_tiles, to_e4m3
from dmverify.spec.formats import E4M3

CASE = "gaussian/spread-{},queries=512,keys=512,heads=4,kv_heads=4,head_dim=64@0"


def float64_attention(case):
    """O, dQ, dK, dV of ordinary attention on the BF16 inputs, (B, N, H, D)."""
    inputs, problem = case.inputs, case.problem
    leaves = [
        torch.from_numpy(x.astype(np.float64)).requires_grad_()
        for x in (inputs.q, inputs.k, inputs.v)
    ]
    q, k, v = (x.transpose(1, 2) for x in leaves)
    k, v = (x.repeat_interleave(problem.group, 1) for x in (k, v))
    mask = torch.from_numpy(problem.mask())
    scores = (q @ k.mT * problem.scale).masked_fill(~mask, -1e300)
    o = ((torch.softmax(scores, -1) * mask) @ v).transpose(1, 2)
    o.backward(torch.from_numpy(inputs.do.astype(np.float64)))
    return {"o": o.detach().numpy()} | {
        name: leaf.grad.numpy() for name, leaf in zip(("dq", "dk", "dv"), leaves, strict=True)
    }


def error(got, due):
    return np.linalg.norm(got - due) / np.linalg.norm(due)


@pytest.mark.parametrize(("spread", "o", "dq"), [(1, 0.046, 0.063), (4, 0.081, 0.115)])
def test_errors_are_the_articles(spread, o, dq):
    case = generate(CASE.format(spread), contract="article")
    outputs, due = Simulation().backward(case), float64_attention(case)
    assert error(outputs.o, due["o"]) == pytest.approx(o, rel=0.1)
    assert error(outputs.dq, due["dq"]) == pytest.approx(dq, rel=0.1)


@pytest.mark.parametrize(
    ("mode", "residual", "rel"),
    [("stale", 3.1e-3, 0.1), ("consistent", 1.9e-3, 0.1), ("matched", 1.3e-8, 0.25)],
)
def test_residuals_are_the_articles(mode, residual, rel):
    case = generate(CASE.format(1), contract=f"article:delta={mode}")
    ds = Simulation().internals(case).ds
    rows = np.abs(ds.sum(-1))[..., 1:] / np.abs(ds).sum(-1)[..., 1:]
    assert np.median(rows) == pytest.approx(residual, rel=rel)


@pytest.mark.parametrize("name", ["lengths/group-3@0", "lengths/q129-k17@0", "lengths/q17-k129@0"])
def test_shapes_masks_and_groups(name):
    case = generate(name, contract="article")
    outputs, due = Simulation().backward(case).require(case.problem), float64_attention(case)
    for tensor, value in due.items():
        assert error(getattr(outputs, tensor), value) < 0.12, tensor


@pytest.mark.parametrize("name", ["no-queries", "no-keys", "no-keys-full", "no-batch"])
def test_empty_extents(name):
    case = generate(f"lengths/{name}@0", contract="article")
    outputs = Simulation().backward(case).require(case.problem)
    assert all((x == 0).all() for n, x in outputs.items() if n != "lse")
    assert np.isneginf(outputs.lse).all()


def test_every_tile_has_its_own_scale():
    x = torch.zeros(1, 1, 65, 65)
    x[..., :64, :64] = 448.0
    x[..., 0, 1] = 1.0  # 1 is a code at this scale
    x[..., 64, 64] = 1e-3
    x[..., 0, 64] = 3.3
    back = cast_tiles(x, 64)
    assert back[0, 0, 0, 1] == 1.0
    assert back[0, 0, 64, 64] == pytest.approx(1e-3, rel=1e-6)
    assert back[0, 0, 0, 64] == pytest.approx(3.3, rel=1e-6)


def test_the_cast_is_e4m3s_at_every_decision_point():
    codes = E4M3.decode(np.arange(127, dtype=np.uint8))
    middles = (codes[1:] + codes[:-1]) / 2
    beside = [np.nextafter(middles, np.float32(side)) for side in (0, 1e9)]
    far = np.float32([464, np.nextafter(np.float32(464), np.float32(465)), 480, 1e38, np.inf])
    some = np.arange(0, 2**31, 65_537, dtype=np.uint32).view(np.float32)
    points = np.concatenate([codes, middles, *beside, far, some])
    points = np.concatenate([points, -points])
    got = to_e4m3(torch.from_numpy(points)).numpy()
    due = E4M3.round(points, saturate=False)
    assert np.isnan(got[np.abs(points) > 464]).all()
    assert np.array_equal(np.isnan(got), np.isnan(due))
    assert np.array_equal(got[~np.isnan(got)].view(np.uint32), due[~np.isnan(due)].view(np.uint32))


def test_torchs_own_cast_takes_no_part(monkeypatch):
    """Beyond 464 it depends on torch's version: NaN or 448."""
    monkeypatch.delattr(torch, "float8_e4m3fn")
    case = generate("tiny-amax/far-keys-100@0", contract="article")
    assert np.isnan(Simulation().backward(case).o).any()
