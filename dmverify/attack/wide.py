"""The float interpretation in a kernel's place, on a device of torch, in stacks of thousands.

The simulation of the contract, or of the nearest contract that it serves (``engines.through``),
answers; the same search with gradients runs on it as on a CPU, in stacks that fill a GPU. Its
float32 products differ from a CPU's in their last bits, so the kernel itself is asked of what was
kept, and an attack goes on from that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dmverify.attack.engines import ENGINES, Best, Turn
from dmverify.attack.engines.through import smooth
from dmverify.attack.evaluate import WORST, Evaluator
from dmverify.attack.stack import Stack
from dmverify.errors import InputError

SCORES = 1 << 26  # of one call: some gigabytes in float64
WIDER = 64  # candidates side by side for each one on a CPU


@dataclass(eq=False)
class Wide(Evaluator):
    """An evaluator whose candidates are judged on a device.

    Attributes:
        place: torch's name of the device.
    """

    place: str = "cpu"

    @property
    def device(self) -> str:
        """Where candidates are evaluated."""
        return self.place

    def room(self, most: int) -> int:
        """How many candidates are looked at side by side."""
        one = self.problem.heads * self.problem.queries * self.problem.keys
        return max(min(SCORES // one, WIDER * most), 1)

    def _values(self, stack: Stack) -> Tensor:
        self.count += len(stack)
        placed = stack.to(self.device)
        with torch.no_grad():
            value = smooth(self, placed).double()
            good = value.isfinite() & self.limits.hold(self.problem, placed)
        return value.masked_fill(~good, WORST).cpu()


def require_device(name: str) -> None:
    """Refuse a device that torch does not have.

    Raises:
        InputError: For another name, or a GPU that is not there.
    """
    there = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    if name not in there:
        raise InputError(
            f"device {name!r}",
            rule=f"torch has {', '.join(there)} here",
            fix="name one of them, or leave the option out",
        )


def searched(
    evaluator: Wide, kernel: Evaluator, *, seed: int, evaluations: int, start: Stack | None
) -> Best:
    """The gradient's search on the device; its best candidates as the kernel judges them.

    Args:
        evaluator: Evaluator of the device.
        kernel: Asks the kernel.
        seed: Seed of the draws.
        evaluations: Evaluations of the device, more or less: whole steps are done.
        start: A candidate that is known beforehand.
    """
    best = Best()
    if start is not None:
        best.add(start, evaluator.values(start))
    ENGINES["gradient"](Turn(evaluator, evaluations, np.random.default_rng(seed), best))
    judged = Best()
    if best.stack is not None:
        judged.add(best.stack, kernel.values(best.stack))
    return judged
