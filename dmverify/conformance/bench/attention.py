"""Attention on this GPU: the bundled kernel and what a user would take instead, in one run.

| kernel | what | needs |
|---|---|---|
| bundled | this project's, FP8, by delta mode and cast | Hopper |
| cudnn-bf16 | cuDNN through torch | |
| flash-2 | FlashAttention-2 through torch | |
| flash-3, flash-3-fp8 | FlashAttention-3, forward | module flash_attn_interface |
| cudnn-fp8 | cuDNN, per-tensor scales, FP8 outputs | module cudnn |

Every step is captured in a CUDA graph and replayed, so that no host time is measured; a step that
cannot be captured is launched as it is and says so. Times are medians of event pairs. Work is
counted as 4 B H Nq Nk D for the forward, half of it under a causal mask, and 2.5 times that for the
backward, whatever a kernel really does. Inputs are standard normal; the bundled kernel's time
includes quantising q, k, v and dO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from statistics import median
from types import MappingProxyType
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from dmverify.conformance.bench.shapes import Shape
from dmverify.errors import InputError, UnknownNameError
from dmverify.kernel.launch import Options, backward, forward, prepare

Row = dict[str, str | float]
Step = Callable[[], object]
WARMUP = 3
REPEATS = 30
CACHE = 1 << 27  # bytes written between two runs: more than the second-level cache holds


@dataclass(frozen=True)
class Peer:
    """One kernel.

    Attributes:
        name: As in the table.
        steps: Yields (pass, step); raises when the kernel does not serve the shape.
    """

    name: str
    steps: Callable[[Shape], Iterator[tuple[str, Step]]]


def bench(shapes: tuple[Shape, ...], *, kernels: tuple[str, ...] = ()) -> Iterator[Row]:
    """Times every kernel on every shape.

    Args:
        shapes: What to run.
        kernels: Names of the table, or ``bundled:delta=...``; none means all peers and ``bundled``.

    Yields:
        Rows with kernel, shape, pass, ms, tflops; or kernel, shape, skip with a reason.

    Raises:
        InputError: If there is no GPU.
        UnknownNameError: For a kernel that is not in the table.
    """
    if not torch.cuda.is_available():
        raise InputError("no GPU", rule="speed is measured on a GPU", fix="run on a Hopper machine")
    peers = [find_peer(name) for name in kernels or tuple(PEERS)]
    for shape in shapes:
        for peer in peers:
            yield from _rows(peer, shape)
            torch.cuda.empty_cache()


def find_peer(name: str) -> Peer:
    """The peer of a name; ``bundled:...`` names a contract.

    Raises:
        UnknownNameError: If there is none.
    """
    if name.partition(":")[0] == "bundled":
        return Peer(name, partial(_bundled, name))
    if name not in PEERS:
        raise UnknownNameError(
            f"kernel {name!r}",
            rule=f"kernels to time are {', '.join(PEERS)}",
            fix="name one of them",
        )
    return Peer(name, PEERS[name])


def _rows(peer: Peer, shape: Shape) -> Iterator[Row]:
    """Rows of one kernel; what it refuses becomes a skip, and the others still run."""
    head: Row = {"kernel": peer.name, "shape": str(shape)}
    try:
        for name, step in peer.steps(shape):
            ms, timed = median_ms(step)
            work = shape.work * WORK[name]
            row: Row = {"pass": name, "ms": round(ms, 4), "tflops": round(work / ms / 1e9, 1)}
            yield head | row | {"timed": timed}
    except Exception as error:
        yield head | {"skip": f"{type(error).__name__}: {str(error)[:160]}"}


WORK = MappingProxyType({"fwd": 1.0, "bwd": 2.5, "fwd+bwd": 3.5})


def median_ms(step: Step, *, repeats: int = REPEATS) -> tuple[float, str]:
    """Milliseconds of a step, and whether a graph was replayed or the step launched."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARMUP):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    run, timed = _captured(step)
    flush = torch.empty(CACHE, dtype=torch.uint8, device="cuda")
    times = []
    for _ in range(repeats):
        flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return median(times), timed


def _captured(step: Step) -> tuple[Step, str]:
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            step()
    except Exception:
        torch.cuda.synchronize()
        return step, "launched"
    return graph.replay, "graph"


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
    from dmverify.spec.contracts import get_contract

    contract = get_contract(name)
    scale = shape.head_dim**-0.5
    options = Options(shape.causal, contract.delta, contract.ds_cast == "zero-sum", scale)
    q, k, v, do = _tensors(shape, heads_first=False, grad=False)

    def run_forward() -> object:
        sizes, operands = prepare(q, k, v, options, backward=False)
        return forward(sizes, operands, options)

    def run_both() -> object:
        sizes, operands = prepare(q, k, v, options, backward=True)
        return backward(sizes, operands, forward(sizes, operands, options), do, options)

    yield "fwd", run_forward
    yield "fwd+bwd", run_both


def _torch(backend: SDPBackend, shape: Shape) -> Iterator[tuple[str, Step]]:
    q, k, v, do = _tensors(shape, heads_first=True, grad=True)
    grouped = shape.heads != shape.kv_heads

    def run_forward() -> torch.Tensor:
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=shape.causal, enable_gqa=grouped
            )

    def run_both() -> object:
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

    def run_forward() -> Any:
        out = flash_attn_func(q, k, v, **extra)
        return out[0] if isinstance(out, tuple) else out

    yield "fwd", run_forward
    if not fp8:
        yield "fwd+bwd", lambda: torch.autograd.grad(run_forward(), (q, k, v), do)


def _cudnn_fp8(shape: Shape) -> Iterator[tuple[str, Step]]:
    from dmverify.conformance.bench.cudnn_fp8 import steps

    return steps(shape)


PEERS: MappingProxyType[str, Callable[[Shape], Iterator[tuple[str, Step]]]] = MappingProxyType(
    {
        "bundled": partial(_bundled, "bundled"),
        "cudnn-bf16": partial(_torch, SDPBackend.CUDNN_ATTENTION),
        "flash-2": partial(_torch, SDPBackend.FLASH_ATTENTION),
        "flash-3": partial(_flash_3, False),
        "flash-3-fp8": partial(_flash_3, True),
        "cudnn-fp8": _cudnn_fp8,
    }
)
"""Everything that is timed when no kernel is named."""
