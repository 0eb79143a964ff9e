"""The stated memory of a call covers every buffer that its launches allocate."""

import pytest
import torch

from dmverify.kernel import launch
from dmverify.kernel.launch import Options
from dmverify.kernel.stripes import Shape, stripes, units_in
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
    c = bytes_per_token(16, 128, tokens)
    assert sum(sizes) - outputs <= c * (tokens + 128)
    if tokens >= 16_384:  # enough units to fill a stripe
        assert sum(sizes) - outputs > 0.8 * c * tokens
    if tokens == 16_384:
        kept = 5 * x.numel()  # codes of Q and K twice and of V, which the forward leaves
        assert sum(sizes) - outputs - kept < 1.2e9


def test_one_stripe_bounds_the_records():
    for tokens in (16_384, 65_536, 100_000):
        shape = Shape(1, 16, 16, tokens, tokens, 128)
        units = units_in(None, shape, causal=True)
        assert max(s.heads * s.blocks for s in stripes(shape, units=units)) <= units
