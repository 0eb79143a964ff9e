"""`dm_attn_func`: FP8 attention with gradients, for torch tensors on a Hopper GPU."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import torch

from .build import MODES
from .errors import UnsupportedError
from .launch import Forward, Images, Operands, Options, backward, forward, prepare

HEAD_DIMS = (64, 128, 256)
CASTS = ("nearest", "zero-sum")
MOST_KEYS = 131_072  # tile maxima of the two-sweep backward live in shared memory


def dm_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = True,
    mode: str = "matched",
    ds_cast: str = "nearest",
    softmax_scale: float | None = None,
    return_lse: bool = False,
) -> Any:
    """Block-scaled FP8 attention, forward and backward, by the contract `bundled`.

    Args:
        q: BF16 (B, Nq, H, D) on a Hopper GPU; D is 64, 128 or 256.
        k: BF16 (B, Nk, Hkv, D); Hkv divides H, head h reads kv head h // (H / Hkv).
        v: BF16 (B, Nk, Hkv, D).
        causal: Key j is visible to query i when j <= i + Nk - Nq.
        mode: How the backward forms delta.
        ds_cast: How dS becomes E4M3: ``nearest``, or ``zero-sum``, which carries errors on.
        softmax_scale: Factor of the logits, D ** -0.5 if None; zero and negative are allowed.
        return_lse: Also return the log-sum-exp of each row.

    Returns:
        O, BF16 (B, Nq, H, D), or (O, LSE) with LSE natural, fp32 (B, H, Nq), -inf on rows that see
        no key. O is differentiable in q, k and v; LSE is not.

    Raises:
        UnsupportedError: Anything the kernels do not serve, with the rule and the fix.
    """
    check_tensors(q, k, v)
    check_choice("mode", mode, MODES)
    check_choice("ds_cast", ds_cast, CASTS)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else float(softmax_scale)
    scale = ctypes.c_float(scale).value  # the kernels' scale is fp32
    if not math.isfinite(scale):
        raise UnsupportedError(scale, rule="softmax_scale is finite", fix="pass a finite number")
    options = Options(bool(causal), mode, ds_cast == "zero-sum", scale)
    out, lse = Attention.apply(q, k, v, options)  # type: ignore[no-untyped-call]
    return (out, lse) if return_lse else out


def check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    """Refuses a value that is not one of the known ones."""
    if value not in known:
        rule = f"{name} is one of {known}"
        raise UnsupportedError(f"{name}={value!r}", rule=rule, fix="pick one")


def check_tensors(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Refuses dtypes, devices and shapes that the kernels do not serve."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        rules = (
            (x.dtype == torch.bfloat16, x.dtype, "is BF16", "cast it"),
            (x.dim() == 4, tuple(x.shape), "is (B, N, H, D)", "reshape it"),
            (x.device.type == "cuda", x.device, "is on a Hopper GPU", "move it"),
            (x.device == q.device, x.device, "is on q's device", "move it"),
        )
        for holds, value, rule, fix in rules:
            if not holds:
                raise UnsupportedError(f"{name}: {value}", rule=f"{name} {rule}", fix=fix)
    if torch.cuda.get_device_capability(q.device) != (9, 0):
        raise UnsupportedError(
            torch.cuda.get_device_name(q.device), rule="the GPU is Hopper (sm_90)", fix="use one"
        )
    batch, _, heads, d = q.shape
    pairs: tuple[tuple[bool, object, str], ...] = (
        (k.shape == v.shape, (tuple(k.shape), tuple(v.shape)), "k and v have one shape"),
        (k.shape[0] == batch, k.shape[0], f"k has q's batch {batch}"),
        (k.shape[3] == d, k.shape[3], f"k has q's head dim {d}"),
        (d in HEAD_DIMS, d, f"D is one of {HEAD_DIMS}"),
        (k.shape[2] > 0 and heads % max(1, k.shape[2]) == 0, (heads, k.shape[2]), "Hkv divides H"),
        (k.shape[1] <= MOST_KEYS, k.shape[1], f"Nk <= {MOST_KEYS}"),
    )
    for fits, found, size_rule in pairs:
        if not fits:
            raise UnsupportedError(found, rule=size_rule, fix="change the shapes")


def aligned(x: torch.Tensor) -> torch.Tensor:
    """`x` itself if 16-byte vector loads can read it, else a contiguous copy."""
    fits = x.stride(3) == 1 and all(x.stride(i) % 8 == 0 for i in range(3))
    if fits and x.data_ptr() % 16 == 0:
        return x
    return x.clone(memory_format=torch.contiguous_format)  # contiguous() keeps a misaligned start


class Attention(torch.autograd.Function):
    """The autograd node: keeps the quantised operands, not the BF16 ones."""

    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, options: Options
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """O and LSE."""
        ctx.options, ctx.shapes = options, (q.shape, k.shape)
        ctx.empty = q.numel() == 0 or k.numel() == 0
        if ctx.empty:
            out = torch.zeros(q.shape, dtype=q.dtype, device=q.device)
            lse = q.new_full((q.shape[0], q.shape[2], q.shape[1]), -math.inf, dtype=torch.float32)
            ctx.mark_non_differentiable(lse)
            return out, lse
        with torch.cuda.device(q.device):
            needs = any(ctx.needs_input_grad)
            shape, ops = prepare(aligned(q), aligned(k), aligned(v), options, backward=needs)
            fwd = forward(shape, ops, options)
        ctx.shape = shape
        if needs:
            ctx.save_for_backward(
                ops.q.rows, ops.q.channels, ops.k.rows, ops.k.channels, ops.v.rows, ops.q_heads,
                ops.kv_heads, ops.q_shift, fwd.out, fwd.lse, fwd.statistics, fwd.top_keys,
                fwd.rescales, fwd.exact_out,
            )  # fmt: skip
        ctx.mark_non_differentiable(fwd.lse)
        return fwd.out, fwd.lse

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, _: object) -> tuple[torch.Tensor | None, ...]:
        """dQ, dK, dV."""
        if ctx.empty:
            q, k = (grad.new_zeros(shape) for shape in ctx.shapes)
            return q, k, torch.zeros_like(k), None
        qr, qc, kr, kc, vr, q_heads, kv_heads, q_shift, *rest = ctx.saved_tensors
        images = Images(qr, qc), Images(kr, kc), Images(vr, None)
        operands = Operands(*images, q_heads, kv_heads, q_shift)
        with torch.cuda.device(grad.device):
            dq, dk, dv, _, _ = backward(
                ctx.shape, operands, Forward(*rest), aligned(grad), ctx.options
            )
        return dq, dk, dv, None
