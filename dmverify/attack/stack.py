"""Candidates: inputs of one problem, many side by side as its batch.

A kernel computes the batches of a call one by one, so one call answers a whole stack; a kernel
whose batches were not independent would fail the relation ``batch`` of ``verify``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dmverify.errors import InputError
from dmverify.spec.case import Case, Inputs
from dmverify.spec.problem import Problem

NAMES = ("q", "k", "v", "do")


@dataclass(frozen=True, eq=False)
class Stack:
    """C candidates, float32 tensors (C, N, H, D) that hold BF16 numbers."""

    q: Tensor
    k: Tensor
    v: Tensor
    do: Tensor

    def __len__(self) -> int:
        return len(self.q)

    def __getitem__(self, at: Tensor | slice) -> Stack:
        return Stack(*(x[at] for x in self.tensors()))

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.q.device

    def to(self, device: torch.device | str) -> Stack:
        """There; the same tensors if they are."""
        return Stack(*(x.to(device) for x in self.tensors()))

    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors in the order q, k, v, do."""
        return self.q, self.k, self.v, self.do

    def items(self) -> Iterator[tuple[str, Tensor]]:
        """Name and tensor."""
        return zip(NAMES, self.tensors(), strict=True)

    def inputs(self) -> Inputs:
        """The tensors as a kernel takes them.

        Raises:
            InputError: For what BF16 does not hold.
        """
        return Inputs(*(x.detach().numpy() for x in self.tensors()))

    def case(self, problem: Problem, contract: str) -> Case:
        """All candidates as one case; ``problem`` is that of one candidate."""
        return Case("attack/x@0", contract, replace(problem, batch=len(self)), self.inputs())


def joined(parts: list[Stack]) -> Stack:
    """Stacks behind each other."""
    return Stack(*(torch.cat(some) for some in zip(*(p.tensors() for p in parts), strict=True)))


def from_arrays(arrays: Mapping[str, np.ndarray]) -> Stack:
    """One candidate from q, k, v, do of shape (1, N, H, D)."""
    return Stack(*(torch.from_numpy(np.array(arrays[n], np.float32)) for n in NAMES))


def bf16(x: Tensor) -> Tensor:
    """The nearest BF16 numbers; gradients pass as if nothing were rounded."""
    return x + (x.detach().bfloat16().float() - x.detach())


def require_one(problem: Problem) -> None:
    """Refuse a problem of several batches: candidates are its batches.

    Raises:
        InputError: For another batch than 1, or a length of 0.
    """
    if problem.batch != 1 or not problem.queries * problem.keys:
        raise InputError(
            f"batch={problem.batch}, queries={problem.queries}, keys={problem.keys}",
            rule="an attack searches one batch entry that has queries and keys",
            fix="write --shape 1,HEADS,N,HEAD_DIM",
        )
