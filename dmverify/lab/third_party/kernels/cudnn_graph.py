"""cuDNN graphs of FP8 attention: which tensors, scalars and outputs they take (module ``cudnn``).

Memory is (B, N, H, D); the graph sees (B, H, N, D) with those strides. Every scale is one float32.
Source: the frontend's graph API and the comments of its FP8 attention nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from dmverify.lab.third_party.kernels.peer import device

SCALAR = (1, 1, 1, 1)
DOWN = ("q", "k", "v", "o", "dO", "s", "dP")
UP = ("s", "dQ", "dK", "dV", "dP")
FORWARD_SCALES = ("descale_q", "descale_k", "descale_v", "scale_s", "descale_s", "scale_o")
BACKWARD_SCALES = (*(f"descale_{x}" for x in DOWN), *(f"scale_{x}" for x in UP))
OPERANDS = MappingProxyType({"q": "q", "k": "k", "v": "v", "do": "dO"})


@dataclass(frozen=True)
class Sizes:
    """What a graph is built for: sizes, mask, softmax scale, algorithm."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    head_dim: int
    causal: bool
    scale: float
    deterministic: bool

    def shape(self, name: str) -> tuple[int, int, int, int]:
        """(B, N, H, D) of q, do, o, dq (long) or k, v, dk, dv."""
        narrow = name in ("k", "v", "dk", "dv")
        heads = self.kv_heads if narrow else self.heads
        length = self.keys if narrow else self.queries
        return (self.batch, length, heads, self.head_dim)


class Graph:
    """A built graph; ``run`` binds memory to its tensors and executes it once."""

    def __init__(self, sizes: Sizes, handle: Any) -> None:
        self._cudnn: Any = import_module("cudnn")
        self._sizes, self._handle = sizes, handle
        single = self._cudnn.data_type.FLOAT
        self.graph = self._cudnn.pygraph(
            io_data_type=self._cudnn.data_type.FP8_E4M3,
            intermediate_data_type=single,
            compute_data_type=single,
            handle=handle,
        )
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, tuple[Any, tuple[int, ...], torch.dtype]] = {}
        self._work: Tensor | None = None

    def codes(self, name: str) -> Any:
        """An input of E4M3 codes."""
        dim, stride = self._layout(name)
        kind = self._cudnn.data_type.FP8_E4M3
        self._inputs[name] = self.graph.tensor(dim=dim, stride=stride, data_type=kind)
        return self._inputs[name]

    def rows(self, name: str) -> Any:
        """The softmax statistics as an input."""
        dim, stride = self._row_layout()
        kind = self._cudnn.data_type.FLOAT
        self._inputs[name] = self.graph.tensor(dim=dim, stride=stride, data_type=kind)
        return self._inputs[name]

    def scales(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Scalar inputs."""
        kind = self._cudnn.data_type.FLOAT
        for name in names:
            self._inputs[name] = self.graph.tensor(dim=SCALAR, stride=SCALAR, data_type=kind)
        return {name: self._inputs[name] for name in names}

    def give_codes(self, tensor: Any, name: str) -> None:
        """An output of E4M3 codes."""
        dim, stride = self._layout(name)
        tensor.set_output(True).set_dim(dim).set_stride(stride)
        tensor.set_data_type(self._cudnn.data_type.FP8_E4M3)
        self._outputs[name] = (tensor, self._sizes.shape(name), torch.float8_e4m3fn)

    def give_rows(self, tensor: Any, name: str) -> None:
        """The softmax statistics as an output."""
        dim, stride = self._row_layout()
        tensor.set_output(True).set_dim(dim).set_stride(stride)
        tensor.set_data_type(self._cudnn.data_type.FLOAT)
        self._outputs[name] = (tensor, dim, torch.float32)

    def give_amax(self, tensor: Any, name: str) -> None:
        """A largest magnitude as an output."""
        tensor.set_output(True).set_dim(SCALAR).set_stride(SCALAR)
        tensor.set_data_type(self._cudnn.data_type.FLOAT)
        self._outputs[name] = (tensor, SCALAR, torch.float32)

    def options(self) -> dict[str, Any]:
        """Mask and softmax scale as the nodes take them."""
        band = {"right_bound": 0} if self._sizes.causal else {}
        return {"attn_scale": self._sizes.scale, **band}

    def built(self) -> Graph:
        """Builds the graph and returns it; raises cuDNN's own errors where it has no kernel."""
        modes = self._cudnn.heur_mode
        self.graph.validate()
        self.graph.build_operation_graph()
        self.graph.create_execution_plans([modes.A, modes.FALLBACK])
        self.graph.check_support()
        self.graph.build_plans()
        size = max(1, self.graph.get_workspace_size())
        self._work = torch.empty(size, device=device(), dtype=torch.uint8)
        return self

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Executes on the current stream; codes are filled with NaN and rows with NaN before."""
        execute, made = self.bound(inputs)
        execute()
        return made

    def bound(self, inputs: dict[str, Tensor]) -> tuple[Callable[[], object], dict[str, Tensor]]:
        """What executes it on the current stream, again and again, and the memory it fills.

        Args:
            inputs: Memory by name; names that the graph does not take are left alone.
        """
        made = {name: _poisoned(shape, dtype) for name, (_, shape, dtype) in self._outputs.items()}
        pack = {tensor: inputs[name] for name, tensor in self._inputs.items()}
        pack |= {tensor: made[name] for name, (tensor, _, _) in self._outputs.items()}
        return partial(self._execute, pack), made

    def _execute(self, pack: dict[Any, Tensor]) -> None:
        """A handle keeps the stream it was given last, so each execution gives it the current."""
        stream = current_stream()
        if stream is not None:
            self._cudnn.set_stream(handle=self._handle, stream=stream)
        self.graph.execute(pack, self._work, handle=self._handle)

    def _layout(self, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        batch, length, heads, width = self._sizes.shape(name)
        dim = (batch, heads, length, width)
        return dim, (length * heads * width, width, heads * width, 1)

    def _row_layout(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        s = self._sizes
        return (s.batch, s.heads, s.queries, 1), (s.heads * s.queries, s.queries, 1, 1)


def current_stream() -> int | None:
    """Handle of torch's current stream; None without a GPU."""
    return torch.cuda.current_stream().cuda_stream if torch.cuda.is_available() else None


def _poisoned(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Memory whose every number is NaN, so that what a kernel leaves unwritten shows."""
    if dtype is torch.float8_e4m3fn:
        return torch.full(shape, 0x7F, device=device(), dtype=torch.uint8).view(dtype)
    return torch.full(shape, torch.nan, device=device(), dtype=dtype)


def forward_graph(sizes: Sizes, handle: Any) -> Graph:
    """O, softmax statistics, largest |P| and |O|."""
    g = declare_forward(Graph(sizes, handle))
    return g.built()


def declare_forward(g: Graph) -> Graph:
    """The forward's tensors, not yet built."""
    o, stats, amax_s, amax_o = g.graph.sdpa_fp8(
        **{name: g.codes(name) for name in ("q", "k", "v")},
        **g.scales(FORWARD_SCALES),
        **g.options(),
        generate_stats=True,
        use_causal_mask=False,
    )
    g.give_codes(o, "o")
    g.give_rows(stats, "lse")
    g.give_amax(amax_s, "amax_s")
    g.give_amax(amax_o, "amax_o")
    return g


def backward_graph(sizes: Sizes, handle: Any) -> Graph:
    """dQ, dK, dV and the largest magnitudes of dQ, dK, dV and dS."""
    return declare_backward(Graph(sizes, handle), sizes).built()


def declare_backward(g: Graph, sizes: Sizes) -> Graph:
    """The backward's tensors, not yet built."""
    found = g.graph.sdpa_fp8_backward(
        **{node: g.codes(name) for name, node in OPERANDS.items()},
        o=g.codes("o"),
        stats=g.rows("lse"),
        **g.scales(BACKWARD_SCALES),
        **g.options(),
        use_padding_mask=False,
        use_deterministic_algorithm=sizes.deterministic,
    )
    for name, tensor in zip(("dq", "dk", "dv"), found[:3], strict=True):
        g.give_codes(tensor, name)
    for name, tensor in zip(("amax_dq", "amax_dk", "amax_dv", "amax_ds"), found[3:], strict=True):
        g.give_amax(tensor, name)
    return g
