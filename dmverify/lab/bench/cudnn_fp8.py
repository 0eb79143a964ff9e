"""cuDNN's FP8 attention (module ``cudnn``): E4M3 in and out, one scale a tensor.

The graphs are those that the suite judges. P's codes are scaled as there and every other scale is
1: numbers are not looked at here. All memory is made before the first step. The handle follows
torch's current stream in every execution: a step on another stream is not in the captured graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from dmverify.lab.bench.measure import Outputs, Runnable, Step
from dmverify.lab.bench.shapes import Shape
from dmverify.lab.third_party.kernels.cudnn_fp8 import P_SCALE
from dmverify.lab.third_party.kernels.cudnn_graph import (
    BACKWARD_SCALES,
    FORWARD_SCALES,
    OPERANDS,
    SCALAR,
    Sizes,
    backward_graph,
    forward_graph,
)
from dmverify.lab.third_party.kernels.peer import device

P_SCALES = {"scale_s": P_SCALE, "descale_s": 1 / P_SCALE}


def steps(shape: Shape) -> Iterator[tuple[str, Step]]:
    """The forward, and the backward where cuDNN has one.

    Yields:
        A pass and the step that runs it. The backward reads the memory that the forward fills.

    Raises:
        ImportError: If module ``cudnn`` is not there; where it serves no such shape it raises its
            own errors.
    """
    cudnn: Any = import_module("cudnn")
    handle, sizes = cudnn.create_handle(), _sizes(shape)
    inputs = _operands(sizes) | _scales()
    forward, filled = forward_graph(sizes, handle).bound(inputs)
    yield "fwd", partial(_run, forward, (filled["o"], filled["lse"]))
    backward, gradients = backward_graph(sizes, handle).bound(inputs | filled)
    yield "bwd", partial(_run, backward, tuple(gradients[n] for n in ("dq", "dk", "dv")))


def _run(execute: Runnable, outputs: Outputs) -> Outputs:
    execute()
    return outputs


def _sizes(shape: Shape) -> Sizes:
    s = shape
    return Sizes(
        s.batch, s.heads, s.kv_heads, s.queries, s.keys, s.head_dim,
        causal=s.causal, scale=s.head_dim**-0.5, deterministic=False,
    )  # fmt: skip


def _operands(sizes: Sizes) -> dict[str, Tensor]:
    generator = torch.Generator(device()).manual_seed(0)
    drawn = {n: torch.randn(sizes.shape(n), generator=generator, device=device()) for n in OPERANDS}
    return {name: x.to(torch.float8_e4m3fn) for name, x in drawn.items()}


def _scales() -> dict[str, Tensor]:
    names = dict.fromkeys(FORWARD_SCALES + BACKWARD_SCALES)
    return {name: torch.full(SCALAR, P_SCALES.get(name, 1.0), device=device()) for name in names}
