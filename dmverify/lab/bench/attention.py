"""Attention on this GPU: the bundled kernel and what a user would take instead, in one run.

| kernel | what | needs |
|---|---|---|
| bundled | this project's, FP8, by delta mode and cast | |
| cudnn-bf16 | cuDNN through torch | |
| flash-2 | FlashAttention-2 through torch | |
| flash-3, flash-3-fp8 | FlashAttention-3, forward | module flash_attn_interface |
| cudnn-fp8 | cuDNN, per-tensor scales, FP8 outputs | module cudnn |

Every step is captured in a CUDA graph and replayed, so that no host time is measured; a step that
cannot be captured is launched as it is and says so. `measure` says what two times are taken, and
what is an error instead of a time. Work is counted as 4 B H Nq Nk D for the forward, half of it
under a causal mask, and 2.5 times that for the backward, whatever a kernel really does. Inputs are
standard normal; the bundled kernel's time includes quantising q, k, v and dO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from dmverify.errors import InputError, UnknownNameError
from dmverify.kernel.launch import Options, backward, forward, prepare
from dmverify.lab.bench.card import Cuda
from dmverify.lab.bench.measure import (
    Card,
    NotMeasuredError,
    Outputs,
    Step,
    measure,
    rate,
)
from dmverify.lab.bench.shapes import Shape
from dmverify.spec.contracts import get_contract

Row = dict[str, str | float]
Steps = Callable[[Shape], Iterator[tuple[str, Step]]]
HOPPER = (9, 0)
WORK = MappingProxyType({"fwd": 1.0, "bwd": 2.5, "fwd+bwd": 3.5})


@dataclass(frozen=True)
class Peer:
    """One kernel.

    Attributes:
        name: As in the table.
        operands: What its products multiply, ``fp8`` or ``bf16``.
        steps: Yields (pass, step); raises when the kernel does not serve the shape.
    """

    name: str
    operands: str
    steps: Steps


def bench(shapes: tuple[Shape, ...], *, kernels: tuple[str, ...] = ()) -> Iterator[Row]:
    """Times every kernel on every shape.

    Args:
        shapes: What to run.
        kernels: Names of the table, or ``bundled:delta=...``; none means all peers and ``bundled``.

    Yields:
        Rows with kernel, shape, pass, then cold_ms, cold_tflops, busy_ms, busy_tflops and timed; or
        an error, where what was timed is not the work. A kernel that is not there or does not serve
        the shape gives kernel, shape and skip with the reason.

    Raises:
        InputError: If there is no Hopper GPU.
        UnknownNameError: For a kernel that is not in the table.
    """
    if not torch.cuda.is_available():
        raise InputError("no GPU", rule="speed is measured on a GPU", fix="run on a Hopper machine")
    if torch.cuda.get_device_capability() != HOPPER:
        rule = "times are held against the peak of a Hopper GPU"
        raise InputError(torch.cuda.get_device_name(), rule=rule, fix="run on a Hopper machine")
    peers = [find_peer(name) for name in kernels or tuple(PEERS)]
    card = Cuda()
    for shape in shapes:
        for peer in peers:
            yield from rows(peer, shape, card)
            torch.cuda.empty_cache()


def find_peer(name: str) -> Peer:
    """The peer of a name; ``bundled:...`` names a contract.

    Raises:
        UnknownNameError: If there is none.
    """
    if name.partition(":")[0] == "bundled":
        return Peer(name, "fp8", partial(_bundled, name))
    if name not in PEERS:
        raise UnknownNameError(
            f"kernel {name!r}",
            rule=f"kernels to time are {', '.join(PEERS)}",
            fix="name one of them",
        )
    return PEERS[name]


def rows(peer: Peer, shape: Shape, card: Card) -> Iterator[Row]:
    """Rows of one kernel; what it refuses becomes a skip, and the others still run."""
    head: Row = {"kernel": peer.name, "shape": str(shape)}
    try:
        for name, step in peer.steps(shape):
            work = shape.work * WORK[name]
            yield head | {"pass": name} | _timed(step, work, peer.operands, card)
    except Exception as error:
        yield head | {"skip": f"{type(error).__name__}: {str(error)[:160]}"}


def _timed(step: Step, work: float, operands: str, card: Card) -> Row:
    """Both times of a step with their rates, or why there are none."""
    try:
        timing = measure(step, card)
        cold, busy = (rate(work, ms, operands) for ms in (timing.cold, timing.busy))
    except NotMeasuredError as error:
        return {"error": f"{error.value}; rule: {error.rule}"}
    return {
        "cold_ms": round(timing.cold, 4),
        "cold_tflops": round(cold, 1),
        "busy_ms": round(timing.busy, 4),
        "busy_tflops": round(busy, 1),
        "timed": timing.how,
    }


def _tensors(shape: Shape, *, heads_first: bool, grad: bool) -> tuple[torch.Tensor, ...]:
    """q, k, v, do in BF16, standard normal, the same numbers for every kernel."""
    generator = torch.Generator("cuda").manual_seed(0)
    made: list[torch.Tensor] = []
    for heads, n in (
        (shape.heads, shape.queries),
        (shape.kv_heads, shape.keys),
        (shape.kv_heads, shape.keys),
        (shape.heads, shape.queries),
    ):
        size = (shape.batch, n, heads, shape.head_dim)
        x = torch.randn(size, generator=generator, device="cuda", dtype=torch.bfloat16)
        x = x.transpose(1, 2).contiguous() if heads_first else x
        made.append(x.requires_grad_() if grad and len(made) < 3 else x)
    return tuple(made)


def _bundled(name: str, shape: Shape) -> Iterator[tuple[str, Step]]:
    contract = get_contract(name)
    scale = shape.head_dim**-0.5
    zero_sum = contract.ds_cast == "zero-sum"
    numerics = contract.centre_k, contract.normaliser
    options = Options(shape.causal, contract.delta, zero_sum, scale, *numerics)
    q, k, v, do = _tensors(shape, heads_first=False, grad=False)

    def run_forward() -> Outputs:
        sizes, operands = prepare(q, k, v, options, backward=False)
        fwd = forward(sizes, operands, options)
        return fwd.out, fwd.lse

    def run_both() -> Outputs:
        sizes, operands = prepare(q, k, v, options, backward=True)
        fwd = forward(sizes, operands, options)
        dq, dk, dv, _, _ = backward(sizes, operands, fwd, do, options)
        return fwd.out, fwd.lse, dq, dk, dv

    yield "fwd", run_forward
    yield "fwd+bwd", run_both


def _torch(backend: SDPBackend, shape: Shape) -> Iterator[tuple[str, Step]]:
    q, k, v, do = _tensors(shape, heads_first=True, grad=True)
    grouped = shape.heads != shape.kv_heads

    def run_forward() -> Outputs:
        with sdpa_kernel(backend):
            out = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=shape.causal, enable_gqa=grouped
            )
        return (out,)

    def run_both() -> Outputs:
        return torch.autograd.grad(run_forward(), (q, k, v), do)

    yield "fwd", run_forward
    yield "fwd+bwd", run_both


def _flash_3(fp8: bool, shape: Shape) -> Iterator[tuple[str, Step]]:
    flash_attn_func: Any = import_module("flash_attn_interface").flash_attn_func

    q, k, v, do = _tensors(shape, heads_first=False, grad=not fp8)
    extra: dict[str, Any] = {"causal": shape.causal}
    if fp8:
        one = torch.ones(shape.batch, shape.kv_heads, device="cuda")
        extra |= {f"{name}_descale": one for name in ("q", "k", "v")}
        q, k, v = (x.to(torch.float8_e4m3fn) for x in (q, k, v))

    def run_forward() -> Outputs:
        out = flash_attn_func(q, k, v, **extra)
        return (out[0] if isinstance(out, tuple) else out,)

    yield "fwd", run_forward
    if not fp8:
        yield "fwd+bwd", lambda: torch.autograd.grad(run_forward(), (q, k, v), do)


def _cudnn_fp8(shape: Shape) -> Iterator[tuple[str, Step]]:
    from dmverify.lab.bench.cudnn_fp8 import steps

    return steps(shape)


_ALL = (
    Peer("bundled", "fp8", partial(_bundled, "bundled")),
    Peer("cudnn-bf16", "bf16", partial(_torch, SDPBackend.CUDNN_ATTENTION)),
    Peer("flash-2", "bf16", partial(_torch, SDPBackend.FLASH_ATTENTION)),
    Peer("flash-3", "bf16", partial(_flash_3, False)),
    Peer("flash-3-fp8", "fp8", partial(_flash_3, True)),
    Peer("cudnn-fp8", "fp8", _cudnn_fp8),
)
PEERS: MappingProxyType[str, Peer] = MappingProxyType({peer.name: peer for peer in _ALL})
"""Everything that is timed when no kernel is named."""
