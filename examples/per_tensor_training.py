"""A training kernel with one scale a tensor and an E5M2 backward, and two wrong versions.

``per_tensor_training.toml`` is its contract; torch does the work and tensors of torch come back::

    PYTHONPATH=examples dmverify verify per_tensor_training:Training --case 'lengths/n6*'
    PYTHONPATH=examples dmverify verify per_tensor_training:StaleDelta --case 'offset/*'
"""

from __future__ import annotations

from pathlib import Path

import torch

from dmverify.conformance.adapter import Forward, Supported, Unsupported
from dmverify.conformance.contracts import resolve_contract
from dmverify.spec.case import Case, Outputs
from dmverify.spec.recording import Provenance

CONTRACT = resolve_contract(str(Path(__file__).with_suffix(".toml"))).name
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def cast(x: torch.Tensor, fmt: torch.dtype) -> torch.Tensor:
    """Rounded to a format and back; what is beyond its largest number is NaN or infinity."""
    beyond = x.abs() > {E4M3: 464, E5M2: 61440}[fmt]
    found = x.to(fmt).float()
    return torch.where(beyond, x.sign() * (torch.nan if fmt is E4M3 else torch.inf), found)


def per_tensor(x: torch.Tensor, fmt: torch.dtype) -> torch.Tensor:
    """Codes times the one scale amax / largest."""
    amax = x.abs().max() if x.numel() else x.new_zeros(())
    scale = torch.where(amax == 0, 1.0, amax / amax.new_tensor(torch.finfo(fmt).max))
    return cast(x / scale, fmt) * scale


class Training:
    """Forward and backward, all heads at once."""

    info = Provenance(kernel="per-tensor-training")
    contract = CONTRACT

    def supports(self, case: Case) -> Supported | Unsupported:
        return Supported() if case.contract == CONTRACT else Unsupported(f"it does {CONTRACT}")

    def forward(self, case: Case) -> Forward:
        found = self.backward(case)
        return Forward(found.o, found.lse)

    def delta(self, p: torch.Tensor, dp: torch.Tensor, o: torch.Tensor, do: torch.Tensor):
        return (p * dp).sum(-1, keepdim=True)

    def key_scale(self, scale: float) -> float:
        return scale

    def backward(self, case: Case) -> Outputs:
        problem, group, scale = case.problem, case.problem.group, case.problem.scale
        q, k, v, do = (torch.tensor(x).transpose(1, 2) for _, x in case.inputs.items())
        q8, do8 = per_tensor(q, E4M3), per_tensor(do, E5M2)
        k8, v8 = (per_tensor(x, E4M3).repeat_interleave(group, 1) for x in (k, v))
        seen = torch.tensor(problem.mask())
        live = seen.any(1)[:, None]

        s = (q8 @ k8.mT * scale).masked_fill(~seen, -torch.inf)
        lowest = s.new_full((*s.shape[:-1], 1), -torch.inf)
        top = torch.cat([s, lowest], -1).amax(-1, keepdim=True)
        e = torch.where(seen, (s - torch.where(live, top, 0.0)).exp(), 0.0)
        l = torch.where(live, e.sum(-1, keepdim=True), 1.0)  # noqa: E741
        o = cast(e * 448, E4M3) @ v8 / 448 / l
        lse = torch.where(live, top + l.log(), -torch.inf)[..., 0]

        p, dp = e / l, do8 @ v8.mT
        delta = self.delta(p, dp, o, do)
        ds8 = cast(p * (dp - delta) * 256, E5M2) / 256
        p8 = cast(p * 448, E4M3) / 448
        dk, dv = ds8.mT @ q8 * self.key_scale(scale), p8.mT @ do8
        per_key_head = [x.unflatten(1, (-1, group)).sum(2) for x in (dk, dv)]
        back = dict(zip(("o", "dq", "dk", "dv"), (o, ds8 @ k8 * scale, *per_key_head), strict=True))
        stored = {name: x.transpose(1, 2) for name, x in back.items()}
        return Outputs(lse=lse, delta=delta[..., 0], **stored)


class StaleDelta(Training):
    """Wrong: delta is formed from O and dO as they are stored."""

    def delta(self, p: torch.Tensor, dp: torch.Tensor, o: torch.Tensor, do: torch.Tensor):
        return (o * do).sum(-1, keepdim=True)


class ScaleLost(Training):
    """Wrong: dK is not multiplied by the softmax scale."""

    def key_scale(self, scale: float) -> float:
        return 1.0
