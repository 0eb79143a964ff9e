"""cuDNN's FP8 attention, forward and backward: E4M3 in and out, one scale a tensor.

The caller chooses every scale. q, k, v and dO take the power of two of the contract's rule, P takes
2^8, and O, dS, dQ, dK and dV take powers of two from ``call_exponents``: what a trainer takes from
an earlier step is here taken from a float64 run of the same call.

Limits on Hopper: head_dim 128, causal only top-left, FP8 outputs, no variable lengths. A NaN or
infinity becomes the NaN code; ``supports`` refuses it, since no contract says what it should do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dmverify.lab.third_party.kernels.codes import Coded, coded_inputs
from dmverify.lab.third_party.kernels.cudnn_graph import (
    SCALAR,
    Graph,
    Sizes,
    backward_graph,
    forward_graph,
)
from dmverify.lab.third_party.kernels.flash3 import distribution
from dmverify.lab.third_party.kernels.peer import Limits, Peer, Raw, Step, cudnn_version, device
from dmverify.spec.attention.run import call_exponents
from dmverify.spec.case import Case, Inputs
from dmverify.spec.contracts import get_contract

P_SCALE = 256.0


@dataclass(frozen=True)
class CudnnFp8(Peer):
    """The peer.

    Attributes:
        name: Name in the table of peers.
        contract: What it is judged by.
        limits: What it serves.
        deterministic: Whether the backward is asked for its deterministic algorithm.
    """

    name: str
    contract: str
    limits: Limits
    deterministic: bool = False

    def version(self) -> str:
        """cuDNN and its frontend."""
        frontend = distribution("nvidia-cudnn-frontend")
        return f"{cudnn_version()}, cudnn-frontend {frontend}"

    def step(self, case: Case, *, backward: bool) -> Step:
        """Runs a step (``Peer``); adds amax_*, largest magnitudes, and unit_*, output scales."""
        coded = coded_inputs(case, self.contract)
        exponents = call_exponents(get_contract(self.contract), case.problem, usable(case.inputs))
        inputs = _bound(coded, exponents)
        sizes = self._sizes(case)
        first = _forward(sizes)
        second = _backward(sizes) if backward else None
        rows = case.problem.shapes()["lse"]

        def run() -> Raw:
            raw = first.run(inputs)
            if second is not None:
                raw |= second.run(inputs | {"o": raw["o"], "lse": raw["lse"]})
            raw["lse"] = raw["lse"].reshape(rows)
            units = {f"unit_{n}": torch.tensor(2.0**-k) for n, k in exponents.items()}
            return raw | units

        return run

    def _sizes(self, case: Case) -> Sizes:
        p = case.problem
        sizes = (p.batch, p.heads, p.kv_heads, p.queries, p.keys, p.head_dim)
        return Sizes(*sizes, p.causal, p.scale, self.deterministic)


def cudnn_fp8() -> CudnnFp8:
    """cuDNN's FP8 attention with the default algorithm."""
    limits = Limits(head_dims=(128,), gpu="hopper", module="cudnn", causal="equal", finite=True)
    return CudnnFp8("cudnn-fp8", "cudnn-fp8", limits)


def cudnn_fp8_deterministic() -> CudnnFp8:
    """cuDNN's FP8 attention with the deterministic algorithm, where there is one."""
    return replace(cudnn_fp8(), deterministic=True)


def usable(inputs: Inputs) -> Inputs:
    """The inputs with 0 for NaN and infinity: what scales are chosen from."""
    zero = np.float32(0)
    return Inputs(**{name: np.where(np.isfinite(x), x, zero) for name, x in inputs.items()})


def scale_values(coded: dict[str, Coded], exponents: dict[str, int]) -> dict[str, float]:
    """Every scalar that the two graphs take, by name."""
    up = {"o": "o", "dP": "ds", "dQ": "dq", "dK": "dk", "dV": "dv"}
    values = {f"scale_{node}": 2.0 ** exponents[name] for node, name in up.items()}
    values |= {f"descale_{node}": 2.0 ** -exponents[up[node]] for node in ("o", "dP")}
    values |= {f"descale_{n}": float(coded[n].scales.item()) for n in ("q", "k", "v")}
    values["descale_dO"] = float(coded["do"].scales.item())
    return values | {"scale_s": P_SCALE, "descale_s": 1 / P_SCALE}


def _bound(coded: dict[str, Coded], exponents: dict[str, int]) -> dict[str, Tensor]:
    values = scale_values(coded, exponents)
    scalars = {name: torch.full(SCALAR, x, device=device()) for name, x in values.items()}
    return {name: x.tensor(device()) for name, x in coded.items()} | scalars


@lru_cache(maxsize=1)
def _handle() -> Any:
    cudnn: Any = import_module("cudnn")
    return cudnn.create_handle()


@lru_cache(maxsize=64)
def _forward(sizes: Sizes) -> Graph:
    return forward_graph(sizes, _handle())


@lru_cache(maxsize=64)
def _backward(sizes: Sizes) -> Graph:
    return backward_graph(sizes, _handle())
