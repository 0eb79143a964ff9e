"""Asks the kernel for a stack of candidates and says how bad each answer is; counts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from dmverify.attack.limits import Limits
from dmverify.attack.objective import (
    ERRORS,
    Distance,
    Objective,
    column_sums,
    distance,
    gap,
    residuals,
)
from dmverify.attack.reference import OUTPUTS, Exact, exact
from dmverify.attack.stack import Stack
from dmverify.conformance.adapter import Dumps, Kernel, Unsupported
from dmverify.errors import InputError
from dmverify.spec.attention.operands import prepare
from dmverify.spec.contracts import get_contract
from dmverify.spec.problem import Problem

SLICE = 1 << 21  # scores of one call: memory stays small
WORST = -1.0  # the value of what is not allowed, or not finite


@dataclass(eq=False)
class Evaluator:
    """A kernel under attack.

    Attributes:
        kernel: The kernel.
        contract: Name of its contract.
        problem: Problem of one candidate.
        objective: What is maximised.
        limits: Which inputs are allowed.
        other: The second kernel of a gap.
        count: How many candidates were evaluated.
    """

    kernel: Kernel
    contract: str
    problem: Problem
    objective: Objective
    limits: Limits
    other: Kernel | None = None
    count: int = field(default=0)

    @property
    def device(self) -> str:
        """Where candidates are evaluated, in torch's words."""
        return "cpu"

    def require_served(self, stack: Stack) -> None:
        """Refuse a problem that the kernel does not serve.

        Raises:
            InputError: With the kernel's reason, or if it shows no internals where the
                residual is asked.
        """
        case = stack.case(self.problem, self.contract)
        for kernel in filter(None, (self.kernel, self.other)):
            answer = kernel.supports(case)
            if isinstance(answer, Unsupported):
                raise InputError(
                    f"{self.contract} at {self.problem}",
                    rule=f"the kernel under attack serves it: {answer.reason}",
                    fix="name another shape or contract",
                )
        if self.objective.name == "residual" and not isinstance(self.kernel, Dumps):
            raise InputError(
                "the residual of a kernel without internals",
                rule="row sums of dS are seen inside a kernel only",
                fix="maximise colsum, which outputs show, or give the kernel internals(case)",
            )

    def values(self, stack: Stack) -> Tensor:
        """The objective of every candidate, (C,); ``WORST`` where it is not allowed."""
        step = self.room(len(stack))
        parts = [self._values(stack[slice(i, i + step)]) for i in range(0, len(stack), step)]
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)

    def room(self, most: int) -> int:
        """How many candidates are looked at side by side, so that memory stays small."""
        one = self.problem.heads * self.problem.queries * self.problem.keys
        return max(min(SLICE // one, most), 1)

    def _values(self, stack: Stack) -> Tensor:
        self.count += len(stack)
        value = self._asked(stack)
        good = value.isfinite() & self.limits.hold(self.problem, stack)
        return value.where(good, torch.tensor(WORST, dtype=torch.float64))

    def _asked(self, stack: Stack) -> Tensor:
        case, name = stack.case(self.problem, self.contract), self.objective.name
        if name == "residual":
            assert isinstance(self.kernel, Dumps)
            inside = self.kernel.internals(case)
            assert inside is not None
            return residuals(inside)
        outputs = self.kernel.backward(case)
        if name == "colsum":
            return column_sums(torch.from_numpy(outputs.dk))
        if name == "gap":
            assert self.other is not None
            return gap(outputs, self.other.backward(case), self.due(stack))
        due = self.due(stack, (name,))
        got = torch.from_numpy(getattr(outputs, name))
        return distance(got, due.outputs[name], due.sizes[name]).value

    def due(self, stack: Stack, names: Collection[str] = OUTPUTS) -> Exact:
        """Exact attention on the inputs, or on the operands; the outputs of some names."""
        return exact(self.problem, self.seen_by_kernel(stack), names=names)

    def seen_by_kernel(self, stack: Stack) -> Stack:
        """The inputs, or the contract's dequantised operands of them."""
        return stack if self.objective.against == "inputs" else operands(self, stack)

    def distances(self, stack: Stack) -> dict[str, Distance]:
        """The distance of every output from attention, for a report."""
        outputs = self.kernel.backward(stack.case(self.problem, self.contract))
        due = self.due(stack)
        return {
            name: distance(
                torch.from_numpy(getattr(outputs, name)), due.outputs[name], due.sizes[name]
            )
            for name in ERRORS
        }


def operands(evaluator: Evaluator, stack: Stack) -> Stack:
    """What the contract's quantisation leaves of Q, K, V and dO, dequantised, (C, N, H, D) float64.

    K is without the mean that centring takes off: no softmax sees it.
    """
    return quantised(evaluator, stack)[0]


def quantised(evaluator: Evaluator, stack: Stack) -> tuple[Stack, Stack]:
    """The operands, and the scale of every one of their numbers."""
    problem = replace(evaluator.problem, batch=len(stack))
    prepared = prepare(get_contract(evaluator.contract), problem, stack.inputs(), cast=True)
    numbers, scales = {}, {}
    for name, x in stack.items():
        # Operands are padded to whole tiles.
        parts = (np.asarray(y)[:, :, : x.shape[1]] for y in prepared.tensors[name])
        codes, scales[name] = (torch.from_numpy(part).double().transpose(1, 2) for part in parts)
        numbers[name] = codes * scales[name]
    if problem.scale < 0:  # whose sign went into q
        numbers["q"] = -numbers["q"]
    return Stack(**numbers), Stack(**scales)
