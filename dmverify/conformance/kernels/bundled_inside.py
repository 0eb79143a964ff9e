"""The numbers inside the bundled kernel, from a dump build, as exact float64.

| number | from |
|---|---|
| q, k, v, do | codes in the operand images, times their scales |
| weights | the forward's codes of P, times beta of their window, moved to the last reference R |
| norm, o32 | rcp(lh) and O before its store |
| p, ds, p_cast, ds_cast | numbers and codes of the backward, in units 2^-kP and 2^-kP / u |
| dp | products of the tensor core times fp32(sdO sV); rounded where a shift is taken off it first |
| shift, delta | what dS subtracts from dP |

Layouts are those of ``kernel/layout.cuh``. Not covered: weights below 2^-126 after a change of
reference, which the kernel flushes and this does not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from dmverify.conformance.kernels.bundled_launch import Choices, options_of, place
from dmverify.kernel.api import aligned
from dmverify.kernel.launch import Dump, ForwardDump, Images, Operands, prepare
from dmverify.kernel.launch import backward as run_backward
from dmverify.kernel.launch import forward as run_forward
from dmverify.kernel.stripes import Shape
from dmverify.spec.case import F64, Case, Internals
from dmverify.spec.formats import E4M3

TOKENS = 64  # of an image, a window, a tile
CHUNK = 16
PANEL = 128  # channels of a panel of a rows image


@np.errstate(all="ignore")  # NaN and infinity are numbers like others here
def inside(case: Case, choices: Choices = Choices()) -> Internals:  # noqa: B008 - frozen
    """Runs a dump build on the GPU and reads its numbers. No length may be 0."""
    options = options_of(case, replace(choices, dump=True))
    tensors = place(case)
    q, k, v, do = (aligned(x) for x in (tensors.q, tensors.k, tensors.v, tensors.do))
    shape, operands = prepare(q, k, v, options, backward=True)
    fwd = run_forward(shape, operands, options)
    *_, dump = run_backward(shape, operands, fwd, do, options)
    assert dump is not None
    assert fwd.dump is not None
    assert fwd.rescales is not None
    assert fwd.exact_out is not None
    head, kv = _float64(operands.q_heads), _float64(operands.kv_heads)
    rescales = _float64(fwd.rescales)
    weights = forward_weights(fwd.dump, rescales[..., 0])
    named = _operands(shape, operands, dump.gradient, head, kv)
    named |= _cut(shape, weights=weights, norm=rescales[..., 1])
    shifts = _float64(dump.shifts)
    named |= _cut(shape, shift=shifts[..., 0], delta=shifts[..., 1])
    fine = np.repeat(kv[:, :, 1], shape.heads // shape.kv_heads, axis=0)
    factor = (head[:, :, None, 1].astype(np.float32) * fine[:, None, :].astype(np.float32)).astype(
        np.float64
    )
    named |= _cut(shape, **backward_numbers(dump, factor, shifted=options.mode == "shifted"))
    named["o32"] = _float64(fwd.exact_out).transpose(0, 2, 1, 3)
    return Internals(**named, norm_divides=False)


def decode_rows(image: npt.NDArray[np.uint8], head_dim: int) -> F64:
    """Values of the codes of a rows image, (heads, padded tokens, D)."""
    heads = image.shape[0]
    tokens = image.reshape(heads, -1, TOKENS * head_dim)
    values: F64 = E4M3.decode(np.ascontiguousarray(tokens[..., rows_positions(head_dim)])).astype(
        np.float64
    )
    return values.reshape(heads, -1, head_dim)


def rows_positions(head_dim: int) -> npt.NDArray[np.intp]:
    """Where the code of (token, channel) lies among the bytes of a rows image of 64 tokens."""
    token, channel = np.arange(TOKENS)[:, None], np.arange(head_dim)[None, :]
    chunk, byte = channel // CHUNK, channel % CHUNK
    if head_dim == TOKENS:
        positions: npt.NDArray[np.intp] = (
            token * TOKENS + (chunk ^ ((token >> 1) & 3)) * CHUNK + byte
        )
        return positions
    panel, chunk = chunk // 8, chunk % 8
    return panel * (TOKENS * PANEL) + token * PANEL + (chunk ^ (token & 7)) * CHUNK + byte


def forward_weights(dump: ForwardDump, last: F64) -> F64:
    """P before normalisation: code x beta x 2^(R of the window - last R), (heads, rows, keys)."""
    codes = E4M3.decode(dump.codes.cpu().numpy()).astype(np.float64)
    beta, reference = (_float64(dump.windows)[..., i] for i in (0, 1))
    moved = np.where(beta == 0, 0.0, reference - np.where(np.isfinite(last), last, 0.0)[..., None])
    scale = beta * np.exp2(np.where(np.isfinite(moved), moved, 0.0))
    return np.asarray(codes * np.repeat(scale, TOKENS, axis=-1))


def backward_numbers(dump: Dump, factor: F64, *, shifted: bool) -> dict[str, F64]:
    """P, dP and dS before and after the casts, (heads, rows, keys).

    Args:
        dump: From the backward.
        factor: fp32(sdO sV) of each 64 x 64 tile, (heads, 64-query blocks, tiles).
        shifted: dP is rounded before anything is taken off it.
    """
    exponents = dump.exponents.cpu().numpy().astype(np.float64)
    p_unit = np.repeat(np.exp2(-exponents[..., 0]), TOKENS, axis=-1)
    ds_unit = p_unit * np.repeat(np.exp2(exponents[..., 1]), TOKENS, axis=-1)
    dp = _float64(dump.dp) * np.repeat(np.repeat(factor, TOKENS, axis=1), TOKENS, axis=2)
    codes = {
        name: E4M3.decode(getattr(dump, f"{name}_codes").cpu().numpy()).astype(np.float64)
        for name in ("p", "ds")
    }
    return {
        "p": _float64(dump.p) * p_unit,
        "dp": dp.astype(np.float32).astype(np.float64) if shifted else dp,
        "ds": _float64(dump.ds) * ds_unit,
        "p_cast": codes["p"] * p_unit,
        "ds_cast": codes["ds"] * ds_unit,
    }


def _operands(
    shape: Shape, operands: Operands, gradient: Images, head: F64, kv: F64
) -> dict[str, F64]:
    """Codes times scales, padding cut off."""
    s = shape
    table = {
        "q": (operands.q, head[..., 0], s.heads, s.nq),
        "k": (operands.k, kv[..., 0], s.kv_heads, s.nk),
        "v": (operands.v, kv[..., 1], s.kv_heads, s.nk),
        "do": (gradient, head[..., 1], s.heads, s.nq),
    }
    found = {}
    for name, (images, scale, heads, n) in table.items():
        assert images.rows is not None
        values = decode_rows(images.rows.cpu().numpy(), s.head_dim)
        values = values * np.repeat(scale, TOKENS, axis=1)[..., None]
        found[name] = values[:, :n].reshape(s.batch, heads, n, s.head_dim)
    return found


def _cut(shape: Shape, **named: F64) -> dict[str, F64]:
    """Padding off: rows (B, H, Nq), matrices (B, H, Nq, Nk)."""
    s = shape
    whole = {
        name: x[:, : s.nq, : s.nk] if x.ndim == 3 else x[:, : s.nq] for name, x in named.items()
    }
    return {name: x.reshape(s.batch, s.heads, *x.shape[1:]) for name, x in whole.items()}


def _float64(x: torch.Tensor) -> F64:
    return np.asarray(x.cpu().numpy().astype(np.float64))
