"""cuDNN's FP8 attention (module ``cudnn``): E4M3 in and out, one scale a tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch

from dmverify.conformance.bench.shapes import Shape

Step = Callable[[], object]
P_SCALE = 256.0  # what the softmax's codes are multiplied by; every other scale is 1
SCALAR = (1, 1, 1, 1)


class _Graph:
    """One cuDNN graph with the device memory of its tensors."""

    def __init__(self, shape: Shape, handle: Any) -> None:
        self.cudnn: Any = import_module("cudnn")
        self.shape, self.handle = shape, handle
        single = self.cudnn.data_type.FLOAT
        self.graph = self.cudnn.pygraph(
            io_data_type=self.cudnn.data_type.FP8_E4M3,
            intermediate_data_type=single,
            compute_data_type=single,
            handle=handle,
        )
        self.pack: dict[Any, torch.Tensor] = {}

    def _layout(self, heads: int) -> dict[str, tuple[int, ...]]:
        """(B, H, N, D) over memory (B, N, H, D)."""
        s, d = self.shape, self.shape.head_dim
        return {
            "dim": (s.batch, heads, s.tokens, d),
            "stride": (s.tokens * heads * d, d, heads * d, 1),
        }

    def codes(self, heads: int, data: torch.Tensor) -> Any:
        """An input of E4M3 codes."""
        kind = self.cudnn.data_type.FP8_E4M3
        tensor = self.graph.tensor(**self._layout(heads), data_type=kind)
        self.pack[tensor] = data
        return tensor

    def rows(self, data: torch.Tensor) -> Any:
        """The softmax statistics as an input."""
        tensor = self.graph.tensor(
            dim=tuple(data.shape), stride=data.stride(), data_type=self.cudnn.data_type.FLOAT
        )
        self.pack[tensor] = data
        return tensor

    def scalars(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Scales, all 1 but those of the softmax."""
        values = {"scale_s": P_SCALE, "descale_s": 1 / P_SCALE}
        found = {}
        for name in names:
            kind = self.cudnn.data_type.FLOAT
            tensor = self.graph.tensor(dim=SCALAR, stride=SCALAR, data_type=kind)
            self.pack[tensor] = torch.full(SCALAR, values.get(name, 1.0), device="cuda")
            found[name] = tensor
        return found

    def output(self, tensor: Any, heads: int) -> torch.Tensor:
        """Memory for an output of E4M3 codes."""
        layout, s = self._layout(heads), self.shape
        tensor.set_output(True).set_dim(layout["dim"]).set_stride(layout["stride"])
        tensor.set_data_type(self.cudnn.data_type.FP8_E4M3)
        size = (s.batch, s.tokens, heads, s.head_dim)
        self.pack[tensor] = torch.empty(size, device="cuda", dtype=torch.float8_e4m3fn)
        return self.pack[tensor]

    def single(self, tensor: Any, like: torch.Tensor) -> None:
        """Memory for a float32 output."""
        tensor.set_output(True).set_dim(tuple(like.shape)).set_stride(like.stride())
        tensor.set_data_type(self.cudnn.data_type.FLOAT)
        self.pack[tensor] = like

    def step(self) -> Step:
        """Builds the graph; the step runs it."""
        graph, modes = self.graph, self.cudnn.heur_mode
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([modes.A, modes.FALLBACK])
        graph.check_support()
        graph.build_plans()
        size = max(1, graph.get_workspace_size())
        work = torch.empty(size, device="cuda", dtype=torch.uint8)
        return lambda: graph.execute(self.pack, work, handle=self.handle)


def steps(shape: Shape) -> Iterator[tuple[str, Step]]:
    """The forward, and the backward where cuDNN has one."""
    cudnn: Any = import_module("cudnn")
    handle = cudnn.create_handle()
    data = {name: _codes(shape, heads) for name, heads in _heads(shape).items()}
    s = shape
    lse = torch.empty(s.batch, s.heads, s.tokens, 1, device="cuda")
    first = _Graph(shape, handle)
    forward, out = _forward(first, data, lse)
    yield "fwd", forward
    yield "bwd", _backward(_Graph(shape, handle), data, lse, out)


def _heads(shape: Shape) -> dict[str, int]:
    return {"q": shape.heads, "k": shape.kv_heads, "v": shape.kv_heads, "dO": shape.heads}


def _codes(shape: Shape, heads: int) -> torch.Tensor:
    size = (shape.batch, shape.tokens, heads, shape.head_dim)
    return torch.randn(size, device="cuda").to(torch.float8_e4m3fn)


def _options(shape: Shape) -> dict[str, Any]:
    band = {"right_bound": 0} if shape.causal else {}
    return {"attn_scale": shape.head_dim**-0.5, **band}


def _forward(
    g: _Graph, data: dict[str, torch.Tensor], lse: torch.Tensor
) -> tuple[Step, torch.Tensor]:
    inputs = {n: g.codes(h, data[n]) for n, h in _heads(g.shape).items() if n != "dO"}
    names = ("descale_q", "descale_k", "descale_v", "scale_s", "descale_s", "scale_o")
    o, stats, *largest = g.graph.sdpa_fp8(
        **inputs,
        **g.scalars(names),
        **_options(g.shape),
        generate_stats=True,
        use_causal_mask=False,
    )
    out = g.output(o, g.shape.heads)
    g.single(stats, lse)
    for tensor in largest:
        g.single(tensor, torch.ones(SCALAR, device="cuda"))
    return g.step(), out


def _backward(
    g: _Graph, data: dict[str, torch.Tensor], lse: torch.Tensor, out: torch.Tensor
) -> Step:
    inputs = {n: g.codes(h, data[n]) for n, h in _heads(g.shape).items()}
    down = tuple(f"descale_{x}" for x in ("q", "k", "v", "o", "dO", "s", "dP"))
    up = tuple(f"scale_{x}" for x in ("s", "dQ", "dK", "dV", "dP"))
    results = g.graph.sdpa_fp8_backward(
        **inputs,
        o=g.codes(g.shape.heads, out),
        stats=g.rows(lse),
        **g.scalars(down + up),
        **_options(g.shape),
        use_padding_mask=False,
        use_deterministic_algorithm=False,
    )
    for tensor, name in zip(results[:3], ("q", "k", "v"), strict=True):
        g.output(tensor, _heads(g.shape)[name])
    for tensor in results[3:]:
        g.single(tensor, torch.ones(SCALAR, device="cuda"))
    return g.step()
