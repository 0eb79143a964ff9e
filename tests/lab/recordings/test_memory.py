"""The stated memory of a call covers every buffer that its launches allocate."""

import pytest
import torch

from dmverify.kernel import launch
from dmverify.kernel.launch import Options, Shape, stripes
from dmverify.lab.acceptance.large import bytes_per_token


@pytest.mark.parametrize("tokens", [1024, 16_384, 65_536, 100_000])
@pytest.mark.parametrize("mode", ["matched", "stale"])
def test_buffers_beyond_outputs_stay_below_c(monkeypatch, tokens, mode):
    sizes = []

    def empty(*shape, dtype, like):
        sizes.append(torch.Size(shape).numel() * dtype.itemsize)
        return torch.empty(shape, dtype=dtype, device="meta")

    monkeypatch.setattr(launch, "empty", empty)
    monkeypatch.setattr(launch, "start", lambda *args, **named: None)
    x = torch.empty(1, tokens, 16, 128, dtype=torch.bfloat16, device="meta")
    options = Options(True, mode, False, 0.1)
    shape, operands = launch.prepare(x, x, x, options, backward=True)
    fwd = launch.forward(shape, operands, options)
    launch.backward(shape, operands, fwd, x, options)
    outputs = 4 * x.numel() * 2 + 4 * tokens * 16
    assert sum(sizes) - outputs <= bytes_per_token(16, 128) * (tokens + 128)
    if tokens > launch.STRIPE_UNITS * 128 // 16:  # enough units to fill a stripe
        assert sum(sizes) - outputs > 0.8 * bytes_per_token(16, 128) * tokens


def test_one_stripe_bounds_the_records():
    for tokens in (16_384, 65_536, 100_000):
        plan = stripes(Shape(1, 16, 16, tokens, tokens, 128))
        assert max(s.heads * s.blocks for s in plan) <= launch.STRIPE_UNITS
