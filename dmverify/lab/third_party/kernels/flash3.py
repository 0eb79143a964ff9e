"""FlashAttention-3 forward, in BF16 and in E4M3 (module ``flash_attn_interface``).

| peer | operands | scales | O |
|---|---|---|---|
| flash-3 | BF16 | none | BF16 |
| flash-3-fp8 | E4M3, amax / 448 | one for each batch and key head, q's too | BF16 |

A causal mask is aligned to the bottom right. LSE is natural. A NaN or infinity of the input becomes
the NaN code under the scale of the finite numbers; ``supports`` refuses it, since no contract says
what it should do. Source: the module's docstrings.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any

import torch
from torch import Tensor

from dmverify.lab.third_party.kernels.codes import Coded, coded_inputs
from dmverify.lab.third_party.kernels.peer import Limits, Peer, Raw, Step, device, to_torch
from dmverify.spec.case import Case

MODULE = "flash_attn_interface"


@dataclass(frozen=True)
class Flash3(Peer):
    """One of the two; the forward takes (B, N, H, D)."""

    name: str
    contract: str
    limits: Limits
    fp8: bool

    def version(self) -> str:
        """The wheel's version and torch's."""
        wheel = distribution("flash-attn-3", "tokenspeed-fa3")
        return f"flash_attn_3 {wheel}, torch {torch.__version__}"

    def step(self, case: Case, *, backward: bool) -> Step:
        """Runs a step (``Peer``); there is no backward."""
        flash: Any = import_module(MODULE).flash_attn_func
        problem = case.problem
        q, k, v, extra = self._operands(case)
        extra |= {"softmax_scale": problem.scale, "causal": problem.causal}

        def run() -> Raw:
            with torch.no_grad():
                o, lse = flash(q, k, v, return_attn_probs=True, **extra)
            return {"o": o, "lse": lse}

        return run

    def _operands(self, case: Case) -> tuple[Tensor, Tensor, Tensor, dict[str, Any]]:
        if not self.fp8:
            q, k, v, _ = to_torch(case, device())
            return q, k, v, {}
        coded = coded_inputs(case, self.contract)
        q, k, v = (coded[name].tensor(device()) for name in ("q", "k", "v"))
        return q, k, v, {f"{name}_descale": _per_head(coded[name]) for name in ("q", "k", "v")}


def _per_head(coded: Coded) -> Tensor:
    """(B, Hkv) float32."""
    return torch.from_numpy(coded.scales).to(device())


def flash_3() -> Flash3:
    """FlashAttention-3 in BF16."""
    limits = Limits(head_dims=(64, 128, 256), gpu="hopper", module=MODULE, backward=False)
    return Flash3("flash-3", "bf16-flash", limits, False)


def flash_3_fp8() -> Flash3:
    """FlashAttention-3 in E4M3."""
    limits = Limits(
        head_dims=(64, 128, 256), gpu="hopper", module=MODULE, backward=False, finite=True
    )
    return Flash3("flash-3-fp8", "flash-3-fp8", limits, True)


def distribution(*names: str) -> str:
    """The version of the first distribution that is installed, or ``unknown``."""
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "unknown"
