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

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from dmverify.attack.stack import Stack
from dmverify.spec.problem import Problem

OUTPUTS = ("o", "dq", "dk", "dv")
KEY_SIDE = ("dk", "dv")


@dataclass(frozen=True, eq=False)
class Exact:
    """Outputs and their sizes by name, (C, N, H, D)."""

    outputs: dict[str, Tensor]
    sizes: dict[str, Tensor]


def exact(
    problem: Problem,
    stack: Stack,
    *,
    names: Collection[str] = OUTPUTS,
    sizes: bool = True,
) -> Exact:
    """Attention of every candidate; differentiable in its tensors.

    Args:
        problem: That of one candidate.
        stack: The candidates.
        names: The outputs that are needed.
        sizes: Whether their sizes are needed.
    """
    q, k, v, do = (_heads(x.double(), problem) for x in stack.tensors())
    p, scale = _softmax(problem, q @ k.mT * problem.scale), problem.scale
    outputs, found = {}, {}
    if "o" in names:
        outputs["o"] = p @ v
    if "dv" in names:
        outputs["dv"] = p.mT @ do
    if "dq" in names or "dk" in names:
        dp = do @ v.mT
        ds = p * (dp - (p * dp).sum(-1, keepdim=True)) * scale
        outputs |= {n: x @ y for n, x, y in (("dq", ds, k), ("dk", ds.mT, q)) if n in names}
    if sizes:
        found = _sizes(names, p, (q, k, v, do), abs(scale))
    return Exact(
        *({n: _tokens(n, x, problem) for n, x in some.items()} for some in (outputs, found))
    )


def _sizes(
    names: Collection[str], p: Tensor, inputs: tuple[Tensor, ...], scale: float
) -> dict[str, Tensor]:
    q, k, v, do = (x.abs() for x in inputs)
    found = {}
    if "o" in names:
        found["o"] = p @ v
    if "dv" in names:
        found["dv"] = p.mT @ do
    if "dq" in names or "dk" in names:
        a = p * (do @ v.mT) * scale
        found |= {n: x @ y for n, x, y in (("dq", a, k), ("dk", a.mT, q)) if n in names}
    return found


def _heads(x: Tensor, problem: Problem) -> Tensor:
    """(C, N, H, D) as (C H, N, D), key heads once for every query head that reads them."""
    x = x.transpose(1, 2)
    if problem.group > 1 and x.shape[1] == problem.kv_heads:
        x = x.repeat_interleave(problem.group, dim=1)
    return x.flatten(0, 1)


def _softmax(problem: Problem, s: Tensor) -> Tensor:
    """Zeros in rows that see no key."""
    if not problem.causal:
        return s.softmax(-1)
    seen = torch.from_numpy(problem.mask()).to(s.device)
    live = seen.any(1)[:, None]
    s = s.masked_fill(~seen, -torch.inf)
    return torch.where(live, s.where(live, 0.0).softmax(-1), 0.0)


def _tokens(name: str, x: Tensor, problem: Problem) -> Tensor:
    """(C H, N, D) as (C, N, heads, D); gradients of shared key heads are summed."""
    if name in KEY_SIDE:
        x = x.reshape(-1, problem.kv_heads, problem.group, *x.shape[1:]).sum(2)
    else:
        x = x.reshape(-1, problem.heads, *x.shape[1:])
    return x.transpose(1, 2)


def largest_logit(problem: Problem, stack: Stack, dtype: torch.dtype = torch.float64) -> Tensor:
    """The largest |logit| that somebody sees, (C,)."""
    q, k = (_heads(x.to(dtype), problem) for x in (stack.q, stack.k))
    s = q @ k.mT
    if problem.causal:
        s = s.masked_fill(~torch.from_numpy(problem.mask()).to(s.device), 0.0)
    largest: Tensor = s.abs().reshape(len(stack), -1).amax(1) * abs(problem.scale)
    return largest
