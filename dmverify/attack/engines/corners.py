"""Cell corners: hold every code, move each input inside its rounding cell; only the truth moves.

An input may move from half a unit below its code to half a unit above it (a quarter below a power
of two) without changing the code; the elements that decide a block's scale stay. The direction is
the gradient of the distance between the answer, held fixed, and exact attention.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dmverify.attack.cells import half_units, half_units_inward
from dmverify.attack.engines.base import Turn
from dmverify.attack.evaluate import quantised
from dmverify.attack.reference import exact
from dmverify.attack.stack import Stack

CANDIDATES = 32
REACHES = (1.0, 0.9, 0.6, 0.3)  # of the way to the corner
ROOM = 0.98  # BF16 and the scale round, too


def corners(turn: Turn) -> None:
    """Only where the answer is compared with attention on the inputs."""
    best, objective = turn.best, turn.evaluator.objective
    if best.stack is None or objective.against != "inputs" or objective.name == "colsum":
        return
    names = ("dq", "dk", "dv") if objective.name in ("gap", "residual") else (objective.name,)
    candidates = turn.evaluator.room(CANDIDATES)
    spent = candidates * (len(REACHES) + 2)
    for _ in range(max(turn.evaluations // spent, 1)):
        start = best.stack[:candidates]
        far = _towards(turn, start, names)
        turn.evaluator.count += 2 * len(start)
        for reach in REACHES:
            pairs = zip(start.tensors(), far.tensors(), strict=True)
            turn.judge(Stack(*(x + reach * (y - x) for x, y in pairs)))


def _towards(turn: Turn, start: Stack, names: tuple[str, ...]) -> Stack:
    """Every input at the corner of its cell that the gradient points to."""
    evaluator = turn.evaluator
    case = start.case(evaluator.problem, evaluator.contract)
    outputs = evaluator.kernel.backward(case)
    leaves = Stack(*(x.clone().requires_grad_() for x in start.tensors()))
    due = exact(evaluator.problem, leaves, names=names, sizes=False).outputs
    got = {name: torch.from_numpy(getattr(outputs, name)).double() for name in names}
    total = sum(((got[n] - due[n]).flatten(1).norm(dim=1).sum() for n in names), torch.zeros(()))
    slopes = torch.autograd.grad(total, leaves.tensors(), allow_unused=True)
    seen, scales = quantised(evaluator, start)
    parts = zip(start.tensors(), seen.tensors(), scales.tensors(), slopes, strict=True)
    return Stack(*(_corner(x, c.float(), s.float(), slope) for x, c, s, slope in parts))


def _corner(x: Tensor, code: Tensor, scale: Tensor, slope: Tensor | None) -> Tensor:
    if slope is None:
        return x
    shift = x - code  # what the mean takes off K, and the rounding error itself
    error = shift - shift.mean(1, keepdim=True)
    up = torch.sign(slope.float())
    inward = up * torch.sign(code) < 0
    half = torch.where(inward, half_units_inward(code, scale), half_units(code, scale))
    target = up * half * ROOM
    moved = x - error + target
    return torch.where(decides_scale(code), x, moved)


def decides_scale(code: Tensor) -> Tensor:
    """Which elements are the largest of their head, (C, N, H, D)."""
    size = code.abs()
    return size >= size.amax((1, 3), keepdim=True) * 0.999
