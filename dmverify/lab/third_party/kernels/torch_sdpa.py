"""torch's attention in BF16: cuDNN, FlashAttention-2 and the composite of matmuls and softmax.

The operators behind ``scaled_dot_product_attention`` are called by name, since the public function
returns no LSE and may choose another one silently.

| peer | operator | LSE |
|---|---|---|
| torch-math | _scaled_dot_product_attention_math | none; logsumexp of the same scores in float32 |
| torch-flash | _scaled_dot_product_flash_attention | natural |
| torch-cudnn | _scaled_dot_product_cudnn_attention | natural |

FlashAttention-2 aligns a causal mask to the bottom right, the other two to the top left. Gradients
are autograd's. Source: torch's operator schemas and documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dmverify.lab.third_party.kernels.peer import (
    Limits,
    Peer,
    Raw,
    Step,
    cudnn_version,
    device,
    to_torch,
)
from dmverify.spec.case import Case
from dmverify.spec.problem import Problem

Operator = Callable[[Tensor, Tensor, Tensor, Problem], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class TorchPeer(Peer):
    """One operator; ``forward_of`` takes heads-first tensors and returns o and lse."""

    name: str
    contract: str
    limits: Limits
    forward_of: Operator

    def version(self) -> str:
        """torch, and cuDNN where it is the one that runs."""
        torch_version = f"torch {torch.__version__}"
        if self.name != "torch-cudnn":
            return torch_version
        return f"{torch_version}, {cudnn_version()}"

    def step(self, case: Case, *, backward: bool) -> Step:
        """Runs a step (``Peer``)."""
        where = "cpu" if self.limits.gpu == "none" else device()
        q, k, v, do = (x.transpose(1, 2).contiguous() for x in to_torch(case, where))
        for x in (q, k, v):
            x.requires_grad_(backward)
        rows = case.problem.shapes()["lse"]

        def run() -> Raw:
            o, lse = self.forward_of(q, k, v, case.problem)
            raw = {"o": o}
            if backward:
                grads = torch.autograd.grad(o, (q, k, v), do)
                raw |= dict(zip(("dq", "dk", "dv"), grads, strict=True))
            wide = {name: x.detach().transpose(1, 2) for name, x in raw.items()}
            padded = lse.detach().float().reshape(*rows[:2], -1)
            return wide | {"lse": padded[..., : rows[2]]}

        return run


def torch_math() -> TorchPeer:
    """The composite operator, on the CPU."""
    limits = Limits(head_dims=tuple(range(32, 257, 32)), gpu="none", grouped=False, causal="equal")
    return TorchPeer("torch-math", "bf16-math", limits, _math)


def torch_math_gpu() -> TorchPeer:
    """Attention of torch's composite operator on a GPU."""
    limits = Limits(head_dims=tuple(range(32, 257, 32)), grouped=False, causal="equal")
    return TorchPeer("torch-math", "bf16-math", limits, _math)


def torch_flash() -> TorchPeer:
    """FlashAttention-2."""
    limits = Limits(head_dims=(32, 64, 96, 128, 256))
    return TorchPeer("torch-flash", "bf16-flash", limits, _flash)


def torch_cudnn() -> TorchPeer:
    """cuDNN's BF16 attention through torch."""
    limits = Limits(head_dims=(32, 64, 96, 128), causal="equal")
    return TorchPeer("torch-cudnn", "bf16-flash", limits, _cudnn)


def _math(q: Tensor, k: Tensor, v: Tensor, problem: Problem) -> tuple[Tensor, Tensor]:
    o, _ = torch.ops.aten._scaled_dot_product_attention_math(
        q, k, v, None, 0.0, problem.causal, None, scale=problem.scale
    )
    return o, _logsumexp(q.detach(), k.detach(), problem)


def _logsumexp(q: Tensor, k: Tensor, problem: Problem) -> Tensor:
    scores = q.float() @ k.float().mT * problem.scale
    hidden = torch.from_numpy(~problem.mask()).to(q.device)
    return scores.masked_fill(hidden, -torch.inf).logsumexp(-1)


def _flash(q: Tensor, k: Tensor, v: Tensor, problem: Problem) -> tuple[Tensor, Tensor]:
    found = torch.ops.aten._scaled_dot_product_flash_attention(
        q, k, v, 0.0, problem.causal, False, scale=problem.scale
    )
    return found[0], found[1]


def _cudnn(q: Tensor, k: Tensor, v: Tensor, problem: Problem) -> tuple[Tensor, Tensor]:
    found = torch.ops.aten._scaled_dot_product_cudnn_attention(
        q, k, v, None, True, 0.0, problem.causal, False, scale=problem.scale
    )
    return found[0], found[1]
