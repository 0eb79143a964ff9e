"""A double of the kernels for machines without a GPU: plain attention behind the same launches.

Launches do nothing; what F, B and G would compute is computed in float64 from the codes of Q, K and
V. Codes are the values themselves, so inputs are small natural numbers.
"""

import math

import pytest
import torch

from dmverify.kernel import api, launch, ops

REAL_PREPARE, REAL_FORWARD, REAL_BACKWARD = launch.prepare, launch.forward, launch.backward


def zeros(*shape, dtype, like):
    return torch.zeros(shape, dtype=dtype, device=like.device)


@pytest.fixture
def plain_attention(monkeypatch):
    """Replaces the launches and the device check; gives what O and LSE then are."""
    monkeypatch.setattr(launch, "start", lambda *args, **choices: None)
    monkeypatch.setattr(launch, "empty", zeros)
    monkeypatch.setattr(api, "check_device", lambda device: None)
    monkeypatch.setattr(ops, "prepare", prepare)
    monkeypatch.setattr(ops, "forward", forward)
    monkeypatch.setattr(ops, "backward", backward)
    return reference


def weights(q, k, causal, scale):
    """P and LSE, (B, H, Nq, Nk) and (B, H, Nq)."""
    logits = torch.einsum("bihd,bjhd->bhij", q, k) * scale
    nq, nk = logits.shape[2:]
    seen = torch.ones(nq, nk, dtype=torch.bool).tril(nk - nq if causal else nk)
    p = logits.masked_fill(~seen, -1e30).softmax(3) * seen  # rows that see no key have no gradient
    return p, logits.masked_fill(~seen, -math.inf).logsumexp(3)


def repeated(heads, *tensors):
    """K or V once for each query head."""
    return [x.repeat_interleave(heads // x.shape[2], 2) for x in tensors]


def reference(q, k, v, causal, scale):
    """O and LSE of plain attention, (B, N, H, D)."""
    k, v = repeated(q.shape[2], k, v)
    p, lse = weights(q, k, causal, scale)
    return torch.einsum("bhij,bjhd->bihd", p, v), lse


def prepare(q, k, v, options, *, backward):
    """Allocates as the kernels' does, and stores values as codes."""
    shape, operands = REAL_PREPARE(q, k, v, options, backward=True)
    for image, x in ((operands.q, q), (operands.k, k), (operands.v, v)):
        batch, n, heads, d = x.shape
        values = x.permute(0, 2, 1, 3).reshape(batch * heads, n * d)
        image.rows.view(batch * heads, -1)[:, : n * d] = values.to(torch.uint8)
    return shape, operands


def decoded(shape, operands):
    """Q, K and V from their codes."""
    s = shape
    sizes = ((s.heads, s.nq), (s.kv_heads, s.nk), (s.kv_heads, s.nk))
    for (heads, n), image in zip(sizes, (operands.q, operands.k, operands.v), strict=True):
        values = image.rows.reshape(s.batch * heads, -1)[:, : n * s.head_dim].double()
        yield values.view(s.batch, heads, n, s.head_dim).permute(0, 2, 1, 3)


def forward(shape, operands, options):
    result = REAL_FORWARD(shape, operands, options)
    out, lse = reference(*decoded(shape, operands), options.causal, options.scale)
    result.out.copy_(out)
    result.lse.copy_(lse)
    for unused in filter(lambda x: x is not None, (result.rescales, result.exact_out)):
        unused.zero_()
    return result


def backward(shape, operands, fwd, grad, options, *, units=None):
    """The gradients' formulas: autograd does not reach into an operator."""
    dq, dk, dv, delta, dump = REAL_BACKWARD(shape, operands, fwd, grad, options, units=units)
    q, k, v = decoded(shape, operands)
    k, v = repeated(shape.heads, k, v)
    do = grad.double()
    p, _ = weights(q, k, options.causal, options.scale)
    dp = torch.einsum("bihd,bjhd->bhij", do, v)
    ds = p * (dp - (p * dp).sum(3, keepdim=True)) * options.scale
    dq.copy_(torch.einsum("bhij,bjhd->bihd", ds, k))
    for mine, x, y in ((dk, ds, q), (dv, p, do)):
        whole = torch.einsum("bhij,bihd->bjhd", x, y)
        mine.copy_(whole.unflatten(2, (shape.kv_heads, -1)).sum(3))
    operands.q_heads.fill_(torch.nan)  # as dO's scales are written into it
    return dq, dk, dv, delta, dump
