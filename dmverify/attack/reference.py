"""Attention and its gradients in float64 for a stack of candidates, with the size of their sums.

    S = scale Q K^T, P = softmax(S), O = P V, dP = dO V^T, delta = rowsum(P dP)
    dS = P (dP - delta), dQ = scale dS K, dK = scale dS^T Q, dV = P^T dO

The *size* of an output is its sum with magnitudes in the place of numbers; with A = P (|dO| |V|^T),

    P |V| for O,  scale A |K| for dQ,  scale A^T |Q| for dK,  P^T |dO| for dV

Those of O and dV bound them; those of dQ and dK leave delta out and bound nothing. An error over
the size does not explode where an output vanishes by itself. Heads first inside, (C, H, N, D);
gradients of shared key heads are summed. torch's float64, one reference beside
``spec.arithmetic.Double``, with which a test compares it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dmverify.attack.stack import Stack
from dmverify.spec.problem import Problem

OUTPUTS = ("o", "dq", "dk", "dv")


@dataclass(frozen=True, eq=False)
class Exact:
    """Outputs and their sizes by name, (C, N, H, D)."""

    outputs: dict[str, Tensor]
    sizes: dict[str, Tensor]


def exact(problem: Problem, stack: Stack, *, sizes: bool = True) -> Exact:
    """Attention of every candidate; differentiable in its tensors.

    Args:
        problem: That of one candidate.
        stack: The candidates.
        sizes: Whether sizes are needed.
    """
    q, k, v, do = (x.double().transpose(1, 2) for x in stack.tensors())
    k, v = (x.repeat_interleave(problem.group, dim=1) for x in (k, v))
    seen = torch.from_numpy(problem.mask())
    scale, live = problem.scale, seen.any(1)[:, None]
    s = (q @ k.mT * scale).masked_fill(~seen, -torch.inf)
    p = torch.where(live, s.where(live, 0.0).softmax(-1), 0.0)
    dp = do @ v.mT
    ds = p * (dp - (p * dp).sum(-1, keepdim=True))
    outputs = {
        "o": p @ v,
        "dq": scale * ds @ k,
        "dk": _to_key_heads(scale * ds.mT @ q, problem),
        "dv": _to_key_heads(p.mT @ do, problem),
    }
    found = {}
    if sizes:
        a = abs(scale) * p * (do.abs() @ v.abs().mT)
        found = {
            "o": p @ v.abs(),
            "dq": a @ k.abs(),
            "dk": _to_key_heads(a.mT @ q.abs(), problem),
            "dv": _to_key_heads(p.mT @ do.abs(), problem),
        }
    turned = [{n: x.transpose(1, 2) for n, x in some.items()} for some in (outputs, found)]
    return Exact(*turned)


def largest_logit(problem: Problem, stack: Stack) -> Tensor:
    """The largest |logit| that somebody sees, (C,)."""
    q, k = (x.double().transpose(1, 2) for x in (stack.q, stack.k))
    s = q @ k.repeat_interleave(problem.group, dim=1).mT * problem.scale
    return s.masked_fill(~torch.from_numpy(problem.mask()), 0.0).abs().flatten(1).amax(1)


def _to_key_heads(x: Tensor, problem: Problem) -> Tensor:
    count, _, *rest = x.shape
    return x.reshape(count, problem.kv_heads, problem.group, *rest).sum(2)
