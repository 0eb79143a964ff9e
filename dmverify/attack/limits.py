"""Which inputs are allowed, and how others are brought back; what was repaired is verified.

| limits | allow |
|---|---|
| statistical | abs(x) <= 4; abs(logit) <= 6; root mean square of every row 0.5 to 1.5; the mean |
| | of a channel of K and V over the keys at most 3 of its standard deviations |
| stress | abs(x) <= 64, abs(logit) <= 1000: not what a model does, and labelled so |
| near | every element within a fraction of a capture's |

Captures of trained models reach means of 3.1 (K) and 2.5 (V) standard deviations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dmverify.attack.reference import largest_logit
from dmverify.attack.stack import Stack, bf16
from dmverify.errors import InputError, unknown_name
from dmverify.spec.problem import Problem

INSIDE = 0.99  # repairs aim a little inside, where rounding to BF16 does not lead out again
TIES = 2.0**-30


class Limits(Protocol):
    """Allowed inputs."""

    @property
    def name(self) -> str:
        """What they are called."""

    def repair(self, problem: Problem, stack: Stack) -> Stack:
        """The candidates, changed as little as is easy, in BF16; differentiable."""

    def hold(self, problem: Problem, stack: Stack) -> Tensor:
        """Which candidates are allowed, (C,)."""


@dataclass(frozen=True)
class Sizes:
    """Limits on sizes and statistics; infinite or 0 where there is none."""

    name: str
    largest: float
    logit: float
    rows: tuple[float, float] = (0.0, float("inf"))
    mean: float = float("inf")

    def repair(self, problem: Problem, stack: Stack) -> Stack:
        """Means, then row sizes, then logits, then single elements."""
        tensors = {name: self._centred(name, x) for name, x in stack.items()}
        tensors = {name: self._sized(x) for name, x in tensors.items()}
        tensors = {name: x.clamp(-self.largest, self.largest) for name, x in tensors.items()}
        logit = largest_logit(problem, Stack(**tensors), torch.float32).clamp_min(TIES)
        shrink = (INSIDE * self.logit / logit).clamp_max(1.0).sqrt()[:, None, None, None]
        tensors |= {name: tensors[name] * shrink for name in ("q", "k")}
        return Stack(**{name: bf16(x) for name, x in tensors.items()})

    def _centred(self, name: str, x: Tensor) -> Tensor:
        if name not in ("k", "v") or self.mean == float("inf") or x.shape[1] < 2:
            return x
        mean, deviation = _spread(x)
        room = INSIDE * self.mean * deviation
        return x - mean + torch.maximum(torch.minimum(mean, room), -room)

    def _sized(self, x: Tensor) -> Tensor:
        low, high = self.rows
        size = x.square().mean(-1, keepdim=True).sqrt().clamp_min(TIES)
        return x * (size.clamp(low / INSIDE, high * INSIDE) / size)

    def hold(self, problem: Problem, stack: Stack) -> Tensor:
        """Every limit as it is stated."""
        good = largest_logit(problem, stack) <= self.logit
        for name, x in stack.items():
            wide = x.double()
            size = wide.square().mean(-1).sqrt()
            inside = (size >= self.rows[0]) & (size <= self.rows[1])
            good = good & inside.flatten(1).all(1) & (x.abs().flatten(1).amax(1) <= self.largest)
            if name in ("k", "v") and x.shape[1] > 1 and self.mean != float("inf"):
                mean, deviation = _spread(wide)
                good = good & (mean.abs() <= self.mean * deviation).flatten(1).all(1)
        return good


@dataclass(frozen=True)
class Near:
    """Every element within a fraction of a capture's, as BF16 numbers inside that box."""

    name: str
    centre: Stack
    within: float

    def repair(self, problem: Problem, stack: Stack) -> Stack:
        """Element by element."""
        low, high = (side.to(stack.device) for side in self.box())
        pairs = zip(stack.tensors(), low.tensors(), high.tensors(), strict=True)
        return Stack(*(bf16(x).maximum(a).minimum(b) for x, a, b in pairs))

    def box(self) -> tuple[Stack, Stack]:
        """The smallest and largest BF16 numbers in the box, (1, N, H, D) each."""
        tensors = self.centre.tensors()
        low = Stack(*(_inward(x - self.within * x.abs(), x) for x in tensors))
        high = Stack(*(_inward(x + self.within * x.abs(), x) for x in tensors))
        return low, high

    def hold(self, problem: Problem, stack: Stack) -> Tensor:
        """Which candidates lie in the box as it is stated, by float64, (C,)."""
        good = torch.ones(len(stack), dtype=torch.bool, device=stack.device)
        centres = self.centre.to(stack.device).tensors()
        for x, centre in zip(stack.tensors(), centres, strict=True):
            wide = centre.double()
            good &= ((x.double() - wide).abs() <= self.within * wide.abs()).flatten(1).all(1)
        return good


def _spread(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of every channel over the tokens, (C, 1, H, D) each."""
    mean = x.mean(1, keepdim=True)
    return mean, (x - mean).square().mean(1, keepdim=True).sqrt()


def _inward(x: Tensor, centre: Tensor) -> Tensor:
    """The BF16 number next to x on the side of the centre."""
    bits = x.view(torch.int32) & -65536  # towards 0
    near = bits.view(torch.float32)
    away = torch.where(near == x, bits, bits + 65536).view(torch.float32)
    return torch.where((x < centre) == (x < 0), near, away).where(x != centre, centre)


SIZES = {
    one.name: one
    for one in (
        Sizes("statistical", 4.0, 6.0, (0.5, 1.5), 3.0),
        Sizes("stress", 64.0, 1000.0),
    )
}


def get_limits(name: str) -> Sizes:
    """The limits of a name.

    Raises:
        UnknownNameError: If there are none.
    """
    if name not in SIZES:
        raise unknown_name("limits", name, SIZES)
    return SIZES[name]


def near(centre: Stack, within: float) -> Near:
    """The box around a capture.

    Raises:
        InputError: For a fraction that is not between 0 and 1.
    """
    if not 0 < within < 1:
        raise InputError(
            f"within {within:g}",
            rule="a box is a fraction of each element",
            fix="write --within 3%",
        )
    return Near(f"within {within:.3g} of a capture", centre, within)
