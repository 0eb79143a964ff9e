"""The kernels as torch operators: what autograd, torch.compile and fake tensors see of them.

| operator, namespace ``dmverify`` | takes | gives |
|---|---|---|
| attention | q, k, v, causal, scale | O, LSE |
| attention_forward | q, k, v, choices | O, LSE, what the backward reads; has a gradient |
| attention_backward | dO, O, what the forward kept, choices | dQ, dK, dV |

All are functional: no argument is written to, no result shares memory with an argument. Arguments
are those of ``dm_attn_func``, which checks them; the operators ask again for the GPU's capability
alone, which a traced call has not. A problem without queries or keys launches nothing: O and the
gradients are zero, the LSE is -inf.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import torch

from .errors import UnsupportedError
from .launch import ForwardBuffers, Images, Operands, Options, backward, forward, prepare
from .stripes import Shape, units_in

Tensors = list[torch.Tensor]
# Fields of ForwardBuffers that a mode's backward reads besides.
EXTRA = {"shifted": ("top_keys",), "associated": ("rescales", "exact_out")}
CHOICES = "bool causal, str mode, bool zero_sum, float scale"
NUMERICS = "str centre_k='blocked-mean', str normaliser='codes'"  # of the forward alone
WORKSPACE = "int? workspace_bytes=None"  # of the backward alone
OF_BOTH, NUMERICAL = 4, 6  # how many choices both passes read, how many come before the workspace
HOPPER = (9, 0)
HOPPER_RULE = "q, k and v are on a Hopper GPU (compute capability 9.0)"


def runs_here(device: torch.device) -> bool:
    """Whether a GPU runs the kernels."""
    return torch.cuda.get_device_capability(device) == HOPPER


def on_device_of(x: torch.Tensor) -> Any:
    """Makes the device of a tensor the current one.

    Raises:
        UnsupportedError: If it is a GPU that does not run the kernels.
    """
    if x.is_cuda and not runs_here(x.device):
        raise UnsupportedError(x.device, rule=HOPPER_RULE, fix="move them to one")
    return torch.cuda.device_of(x)  # type: ignore[no-untyped-call]


def aligned(x: torch.Tensor) -> torch.Tensor:
    """`x` itself if 16-byte vector loads can read it, else a contiguous copy."""
    fits = x.stride(3) == 1 and all(x.stride(i) % 8 == 0 for i in range(3))
    if fits and x.data_ptr() % 16 == 0:
        return x
    return x.clone(memory_format=torch.contiguous_format)  # contiguous() keeps a misaligned start


def choose(
    causal: bool,
    mode: str,
    zero_sum: bool,
    scale: float,
    centre_k: str = "blocked-mean",
    normaliser: str = "codes",
) -> Options:
    """The kernels' options; their scale is fp32."""
    return Options(causal, mode, zero_sum, ctypes.c_float(scale).value, centre_k, normaliser)


def kept_sizes(q: Any, k: Any, mode: str) -> list[tuple[tuple[int, ...], torch.dtype]]:
    """Shape and dtype of what the forward keeps, in order; padded lengths are blocks of 128.

    Codes of Q and K as rows and channels and of V as rows, scales of Q and of K and V, (M, l) of
    each row; shifted: the key of its largest score; associated: (R, rcp(lh)) and O in fp32.
    """
    batch, nq, heads, d = q.shape
    _, nk, kv_heads, _ = k.shape
    lead, kv_lead = batch * heads, batch * kv_heads
    blocks, kv_blocks = (nq + 127) // 128, (nk + 127) // 128
    codes, f32 = torch.uint8, torch.float32
    q_image, k_image = (lead, blocks, 128 * d), (kv_lead, kv_blocks, 128 * d)
    pair = (lead, 128 * blocks, 2)
    more = {
        "shifted": [(pair[:2], torch.int32)],
        "associated": [(pair, f32), ((batch, nq, heads, d), f32)],
    }
    return [
        (q_image, codes),
        (q_image, codes),
        (k_image, codes),
        (k_image, codes),
        (k_image, codes),
        ((lead, 2 * blocks, 4), f32),
        ((kv_lead, 2 * kv_blocks, 4), f32),
        (pair, f32),
        *more.get(mode, []),
    ]


def nothing_seen(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """O and LSE when there are no queries or no keys."""
    batch, nq, heads, _ = q.shape
    out = torch.zeros(q.shape, dtype=q.dtype, device=q.device)
    return out, q.new_full((batch, heads, nq), -math.inf, dtype=torch.float32)


def run_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float, *numerics: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """O and LSE, keeping nothing; modes and casts are about the backward alone."""
    if not (q.numel() and k.numel()):
        return nothing_seen(q)
    options = choose(causal, "matched", False, scale, *numerics)
    with on_device_of(q):
        shape, operands = prepare(aligned(q), aligned(k), aligned(v), options, backward=False)
        fwd = forward(shape, operands, options)
    return fwd.out, fwd.lse


def run_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *choices: Any,
) -> tuple[torch.Tensor, torch.Tensor, Tensors]:
    """O, LSE and what the backward reads: the quantised operands, not the BF16 ones."""
    if not (q.numel() and k.numel()):
        kept = [q.new_zeros(size, dtype=dtype) for size, dtype in kept_sizes(q, k, choices[1])]
        return *nothing_seen(q), kept
    options = choose(*choices[:NUMERICAL])  # no workspace: torch leaves defaults at the end out
    with on_device_of(q):
        shape, ops = prepare(aligned(q), aligned(k), aligned(v), options, backward=True)
        fwd = forward(shape, ops, options)
    images = ops.q.rows, ops.q.channels, ops.k.rows, ops.k.channels, ops.v.rows
    more = fwd.top_keys, fwd.rescales, fwd.exact_out
    made = (*images, ops.q_heads, ops.kv_heads, fwd.statistics, *more)
    return fwd.out, fwd.lse, [x for x in made if x is not None]


def run_backward(
    grad: torch.Tensor,
    out: torch.Tensor,
    kept: Tensors,
    keys: int,
    kv_heads: int,
    causal: bool,
    mode: str,
    zero_sum: bool,
    scale: float,
    workspace: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dQ, dK and dV; ``keys`` is Nk, ``kv_heads`` Hkv, ``workspace`` the bytes of the records."""
    batch, nq, heads, d = grad.shape
    if not (grad.numel() and keys):
        dk = grad.new_zeros((batch, keys, kv_heads, d))
        return torch.zeros(grad.shape, dtype=grad.dtype, device=grad.device), dk, dk.clone()
    qr, qc, kr, kc, vr, q_scales, kv_scales, statistics, *more = kept
    extra: dict[str, Any] = dict(zip(EXTRA.get(mode, ()), more, strict=True))
    unread = grad.new_empty(0)  # the backward reads neither the shift of q nor the LSE
    # dO's scales go beside those of Q: a second backward of the same forward must not meet them.
    scales = q_scales.clone(), kv_scales
    operands = Operands(Images(qr, qc), Images(kr, kc), Images(vr, None), *scales, unread)
    shape = Shape(batch, heads, kv_heads, nq, keys, d)
    fwd = ForwardBuffers(out, unread, statistics, **extra)
    options = choose(causal, mode, zero_sum, scale)
    with on_device_of(grad):
        units = units_in(workspace, shape, causal=causal)
        dq, dk, dv, _, _ = backward(shape, operands, fwd, aligned(grad), options, units=units)
    return dq, dk, dv


attention = torch.library.custom_op(
    "dmverify::attention",
    run_attention,
    mutates_args=(),
    schema=f"(Tensor q, Tensor k, Tensor v, bool causal, float scale, {NUMERICS})"
    " -> (Tensor, Tensor)",
)
attention_forward = torch.library.custom_op(
    "dmverify::attention_forward",
    run_forward,
    mutates_args=(),
    schema=f"(Tensor q, Tensor k, Tensor v, {CHOICES}, {NUMERICS}, {WORKSPACE})"
    " -> (Tensor, Tensor, Tensor[])",
)
attention_backward = torch.library.custom_op(
    "dmverify::attention_backward",
    run_backward,
    mutates_args=(),
    schema="(Tensor grad, Tensor out, Tensor[] kept, SymInt keys, SymInt kv_heads, "
    f"{CHOICES}, {WORKSPACE}) -> (Tensor, Tensor, Tensor)",
)


@attention.register_fake
def fake_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *choices: object
) -> tuple[torch.Tensor, torch.Tensor]:
    """Shapes of O and LSE, both contiguous."""
    batch, nq, heads, _ = q.shape
    return q.new_empty(q.shape), q.new_empty((batch, heads, nq), dtype=torch.float32)


@attention_forward.register_fake
def fake_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    mode: str,
    *choices: object,
) -> tuple[torch.Tensor, torch.Tensor, Tensors]:
    """Shapes of O, LSE and what is kept."""
    kept = [q.new_empty(size, dtype=dtype) for size, dtype in kept_sizes(q, k, mode)]
    return *fake_attention(q, k, v), kept


@attention_backward.register_fake
def fake_backward(
    grad: torch.Tensor,
    out: torch.Tensor,
    kept: Tensors,
    keys: int,
    kv_heads: int,
    *choices: object,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Shapes of dQ, dK and dV, all contiguous."""
    batch, _, _, d = grad.shape
    sizes = (batch, keys, kv_heads, d)
    return grad.new_empty(grad.shape), grad.new_empty(sizes), grad.new_empty(sizes)


def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    """What autograd stores between the passes."""
    _, k, _, *choices = inputs
    ctx.choices = (*choices[:OF_BOTH], *choices[NUMERICAL:])  # the backward reads no other
    out, lse, kept = output
    ctx.keys, ctx.kv_heads = k.shape[1], k.shape[2]
    ctx.save_for_backward(out, *kept)
    ctx.mark_non_differentiable(lse, *kept)
    ctx.set_materialize_grads(False)  # else autograd makes zero gradients of the codes


def gradient(ctx: Any, grad: torch.Tensor | None, *_: object) -> tuple[torch.Tensor | None, ...]:
    """Gradients of q, k and v; None for the choices."""
    others = (None,) * (len(ctx.needs_input_grad) - 3)
    if grad is None:
        return None, None, None, *others
    out, *kept = ctx.saved_tensors
    return *attention_backward(grad, out, kept, ctx.keys, ctx.kv_heads, *ctx.choices), *others


attention_forward.register_autograd(gradient, setup_context=keep)
