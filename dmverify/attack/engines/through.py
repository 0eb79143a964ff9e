"""The gradient of the objective through the roundings, as if they were not there, and Adam.

White box: the float32 simulation of the contract, or of the nearest contract that it serves. A
rounding passes gradients unchanged ("straight-through": Bengio et al., arXiv 1308.3432); what the
kernel itself answers is asked of every candidate that is kept. Adam: D. Kingma and J. Ba, arXiv
1412.6980.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor

from dmverify.attack.engines.base import Turn
from dmverify.attack.engines.draws import drawn
from dmverify.attack.evaluate import Evaluator
from dmverify.attack.objective import FLOOR, norm
from dmverify.attack.reference import exact
from dmverify.attack.stack import Stack, joined
from dmverify.conformance.kernels.simulation import DELTAS, Operands, Simulation
from dmverify.spec.case import Case
from dmverify.spec.contracts import Contract, get_contract
from dmverify.spec.problem import Problem

CANDIDATES = 32
RATE = 0.08
LEG = 200  # steps from one start
NOISE = 0.1  # of the last of the candidates that ascend
COST = 2  # evaluations that a step with gradients costs beside the one that asks the kernel
TINY = 1e-30


class Differentiable(Simulation):
    """The simulation on tensors that carry gradients.

    Args:
        stack: The candidates.
    """

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def _tensors(self, case: Case) -> tuple[Tensor, ...]:
        return tuple(x.transpose(1, 2) for x in self._stack.tensors())

    def keys_and_values(self, ops: Operands) -> tuple[Tensor, Tensor]:
        """What K and V were before their casts, for every query head."""
        _, k, v, _ = (x.transpose(1, 2) for x in self._stack.tensors())
        group = ops.q.shape[1] // k.shape[1]
        k, v = (self._to_query_heads(x, group) for x in (k, v))
        return k - ops.k_mean, v

    def _blocks(self, case: Case) -> Iterator[Operands]:
        """Takes all queries at once: the caller makes sure that memory suffices."""
        yield self._operands(get_contract(case.contract), case)

    def outputs(self, evaluator: Evaluator) -> dict[str, Tensor]:
        """o, dq, dk, dv and the operands that they were made of, (C, N, H, D)."""
        case = _case(evaluator, self._stack)
        ((ops, fwd, bwd),) = self._run(case)
        group = evaluator.problem.group
        found = {
            "o": fwd.o, "dq": bwd.dq, "dk": self._store(bwd.dk), "dv": self._store(bwd.dv),
            "q8": ops.q8, "k8": ops.k8[:, ::group], "v8": ops.v8[:, ::group], "do8": ops.do8,
        }  # fmt: skip
        return {name: x.transpose(1, 2) for name, x in found.items()} | {"ds8": bwd.ds8}


def served(contract: Contract) -> str:
    """The name of the contract that the simulation computes in a contract's place."""
    delta = contract.delta if contract.delta in DELTAS else "matched"
    return get_contract("article").name if delta == "matched" else f"article:delta={delta}"


@dataclass(frozen=True)
class _Asked:
    """What the simulation's steps read of a case whose tensors they have."""

    contract: str
    problem: Problem


def _case(evaluator: Evaluator, stack: Stack) -> Case:
    problem = replace(evaluator.problem, batch=len(stack))
    return cast(Case, _Asked(served(get_contract(evaluator.contract)), problem))


def smooth(evaluator: Evaluator, stack: Stack) -> Tensor:
    """The objective of every candidate with gradients, (C,), where its tensors are."""
    with nullcontext() if stack.device.type == "cpu" else stack.device:
        return _smooth(evaluator, stack)


def _smooth(evaluator: Evaluator, stack: Stack) -> Tensor:
    found = Differentiable(stack).outputs(evaluator)
    objective = evaluator.objective
    if objective.name == "residual":
        return norm(found["ds8"].sum(-1)) / _sizes(found["ds8"], -1)
    if objective.name == "colsum":
        return norm(found["dk"].sum(1)) / _sizes(found["dk"], 1)
    names = ("dq", "dk", "dv") if objective.name == "gap" else (objective.name,)
    seen = stack
    if objective.against == "operands":
        seen = Stack(*(found[f"{name}8"] for name in ("q", "k", "v", "do")))
    due = exact(evaluator.problem, seen, names=names)
    return sum((_floored(found[n], due.outputs[n], due.sizes[n]) for n in names), torch.zeros(()))


def _floored(got: Tensor, due: Tensor, size: Tensor) -> Tensor:
    error, whole, floor = (norm(x) for x in (got - due, due, size))
    return error / torch.maximum(whole, FLOOR * floor).clamp_min(TINY)


def _sizes(x: Tensor, axis: int) -> Tensor:
    return norm(x.abs().sum(axis)).clamp_min(TINY)


def gradient(turn: Turn) -> None:
    """Adam in legs, from N(0, 1) or anywhere in the box; every second leg half from the best."""
    candidates = turn.evaluator.room(CANDIDATES)
    step = candidates * (1 + COST)
    legs = max(round(turn.evaluations / (step * LEG)), 1)
    steps = max(turn.evaluations // (step * legs), 1)
    for leg in range(legs):
        fresh = -(-candidates // 2) if leg % 2 and turn.best.stack is not None else candidates
        start = [drawn(turn, fresh)]
        if fresh < candidates and turn.best.stack is not None:
            start.append(turn.best.stack[torch.arange(candidates - fresh) % len(turn.best.stack)])
        _leg(turn, joined(start), steps)


def ascent(turn: Turn) -> None:
    """Adam from the best candidates, the first of them as they are, the others with more noise."""
    if turn.best.stack is None:
        return
    candidates = turn.evaluator.room(CANDIDATES)
    start = turn.best.stack[torch.arange(candidates) % len(turn.best.stack)]
    noise = torch.linspace(0, NOISE, candidates)[:, None, None, None]
    draws = (turn.rng.standard_normal(x.shape, np.float32) for x in start.tensors())
    pairs = zip(start.tensors(), draws, strict=True)
    moved = Stack(*(x + noise * torch.from_numpy(y) for x, y in pairs))
    _leg(turn, moved, max(turn.evaluations // (candidates * (1 + COST)), 1))


def _leg(turn: Turn, start: Stack, steps: int) -> None:
    """Steps of Adam on every candidate, slower and slower; the kernel is asked after each."""
    evaluator = turn.evaluator
    placed = start.to(evaluator.device).tensors()
    latent = [x.detach().clone().requires_grad_() for x in placed]
    optimiser = torch.optim.Adam(latent, lr=RATE)
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps, RATE / 20)
    for _ in range(steps):
        optimiser.zero_grad()
        stack = evaluator.limits.repair(evaluator.problem, Stack(*latent))
        value = smooth(evaluator, stack)
        loss = -(value.clamp_min(TINY).log()).where(value.isfinite(), 0.0).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        for x in latent:
            if x.grad is not None:
                x.grad.nan_to_num_(0.0, 0.0, 0.0)
        optimiser.step()
        slower.step()
        evaluator.count += len(start) * COST
        turn.judge(Stack(*(x.detach() for x in latent)))
