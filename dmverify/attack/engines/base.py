"""What an engine is: it spends evaluations and returns the worst candidates it has met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from dmverify.attack.evaluate import WORST, Evaluator
from dmverify.attack.stack import Stack, joined

KEPT = 64  # candidates that one engine hands to the next


@dataclass(eq=False)
class Best:
    """The worst candidates so far, largest value first; one object for a whole attempt."""

    stack: Stack | None = None
    values: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.float64))

    @property
    def value(self) -> float:
        """The largest; ``WORST`` if there is none."""
        return float(self.values[0]) if len(self.values) else WORST

    def add(self, stack: Stack, values: Tensor) -> None:
        """Takes in candidates and keeps the largest ``KEPT``."""
        first = torch.argsort(values, descending=True, stable=True)[:KEPT]
        first = first[values[first] > WORST]
        some = Stack(*(x.detach()[first.to(x.device)].cpu() for x in stack.tensors()))
        sizes = values[first]
        if self.stack is not None:
            some, sizes = joined([self.stack, some]), torch.cat([self.values, sizes])
        order = torch.argsort(sizes, descending=True, stable=True)[:KEPT]
        self.stack, self.values = some[order], sizes[order]


@dataclass(frozen=True, eq=False)
class Turn:
    """What an engine gets.

    Attributes:
        evaluator: Asks the kernel.
        evaluations: How many it may spend.
        rng: Its draws.
        best: Where it starts from, and what it adds to.
    """

    evaluator: Evaluator
    evaluations: int
    rng: np.random.Generator
    best: Best

    def judge(self, stack: Stack) -> Tensor:
        """Repairs candidates, asks, keeps the best; the values in the stack's order."""
        placed = stack.to(self.evaluator.device)
        repaired = self.evaluator.limits.repair(self.evaluator.problem, placed)
        values = self.evaluator.values(repaired)
        self.best.add(repaired, values)
        return values


Engine: TypeAlias = Callable[[Turn], None]
