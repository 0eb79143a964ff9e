"""Rounding errors made to agree: every input moves to the near side of a tie of its code.

With u the direction of the error now, an input whose rounding is worth g = d <u, output> / d x^
should be rounded as far as can be in the direction of g. The nearest such place is just beyond one
of the two ties beside its code, at most half a unit away, so that the code changes by one at the
most and g stays about what it is. Inputs that decide a block's scale stay. Some of the inputs move,
in turn those that are worth most and some by chance, and some further beyond their ties than
others, since K's mean and the scales move too: the kernel says what is best. Chance matters once
all have moved: moves that are right one by one are too much together.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from dmverify.attack.cells import binades, half_units, half_units_inward
from dmverify.attack.engines.base import Turn
from dmverify.attack.engines.corners import decides_scale
from dmverify.attack.engines.through import Differentiable, served
from dmverify.attack.evaluate import Evaluator, quantised
from dmverify.attack.limits import Near
from dmverify.attack.objective import ERRORS
from dmverify.attack.reference import exact
from dmverify.attack.stack import NAMES, Stack, joined
from dmverify.spec.contracts import get_contract

CANDIDATES = 8
SHARES = (1.0, 0.7, 0.4)  # of the inputs, those that are worth most
BEYOND = (1.25 * 2.0**-8, 2.0**-7, 2.0**-6)  # of a tie, over its binade: BF16's half unit and more
CHANCE = 3  # the power of a share that is moved by chance: 1, 0.34, 0.06
TINY = 1e-30


def align(turn: Turn) -> None:
    """Only where an output's error from attention on the inputs is maximised."""
    best, objective = turn.best, turn.evaluator.objective
    if best.stack is None or objective.against != "inputs" or objective.name not in ERRORS:
        return
    candidates = turn.evaluator.room(CANDIDATES)
    spent = candidates * (len(SHARES) * len(BEYOND) + 2)
    for step in range(max(turn.evaluations // spent, 1)):
        start = best.stack[:candidates]
        worth = _worth(turn.evaluator, start)
        cells = quantised(turn.evaluator, start)
        turn.evaluator.count += 2 * len(start)
        places = (_aligned(turn.evaluator, start, cells, worth, beyond) for beyond in BEYOND)
        chosen = _worth_most if step % 2 == 0 else partial(_by_chance, turn.rng)
        options = [
            _moved(start, far, chosen(start, worth, share)) for far in places for share in SHARES
        ]
        turn.judge(joined(options))


def _worth(evaluator: Evaluator, start: Stack) -> Stack:
    """What one unit of rounding of every input adds to the error along its direction."""
    leaves = Stack(*(x.clone().requires_grad_() for x in start.tensors()))
    kernel = Differentiable(leaves)
    name = evaluator.objective.name
    problem = replace(evaluator.problem, batch=len(start))
    contract = served(get_contract(evaluator.contract))
    case = replace(start.case(evaluator.problem, contract), problem=problem)
    ((ops, fwd, bwd),) = kernel._run(case)
    got = {"o": fwd.o32, "dq": bwd.dq, "dk": bwd.dk, "dv": bwd.dv}[name]
    due = exact(evaluator.problem, start, names=(name,), sizes=False).outputs[name]
    error = got.detach().double() - due.transpose(1, 2)
    size = error.flatten(1).norm(dim=1).clamp_min(TINY)[:, None, None, None]
    rounded = (ops.q8, ops.k8, ops.v8, ops.do8)
    slopes = torch.autograd.grad((got * (error / size).float()).sum(), rounded, allow_unused=True)
    group, found = evaluator.problem.group, []
    for of, slope in zip(NAMES, slopes, strict=True):
        wide = torch.zeros_like(rounded[NAMES.index(of)]) if slope is None else slope
        if of in ("k", "v"):
            wide = wide.reshape(len(wide), -1, group, *wide.shape[2:]).sum(2)
        found.append(wide.transpose(1, 2))
    return Stack(*found)


def _aligned(
    evaluator: Evaluator, start: Stack, cells: tuple[Stack, Stack], worth: Stack, beyond: float
) -> Stack:
    """Every input beyond the nearer of the ties that round it the way it is worth more."""
    box = evaluator.limits.box() if isinstance(evaluator.limits, Near) else None
    moved = {}
    for name, x in start.items():
        code, scale = (getattr(one, name).float() for one in cells)
        slope = getattr(worth, name)
        shift = (x - code).mean(1, keepdim=True) if name == "k" else 0.0  # the mean of K
        above, below = (_beyond(code, scale, slope, beyond, side) + shift for side in (1, -1))
        # With its code as it is, a number is rounded up most at the lower end of its cell.
        same, other = (torch.where(slope > 0, *pair) for pair in ((below, above), (above, below)))
        reached = (other - x).abs() < (same - x).abs()
        if box is not None:
            low, high = (getattr(side, name) for side in box)
            reached = (other >= low) & (other <= high) & (reached | (same < low) | (same > high))
        largest = code.abs().amax((1, 3), keepdim=True)
        reached &= (other - shift).abs() < largest
        keep = decides_scale(code) | (slope == 0) | ((same - shift).abs() >= largest) & ~reached
        moved[name] = torch.where(keep, x, torch.where(reached, other, same))
    return Stack(**moved)


def _beyond(code: Tensor, scale: Tensor, slope: Tensor, beyond: float, side: int) -> Tensor:
    """The place near the tie above or below a code that is rounded up where the slope is positive.

    A tie is half a unit from the code; just above it a number is rounded up.
    """
    outward = torch.sign(code) * side >= 0
    half = torch.where(outward, half_units(code, scale), half_units_inward(code, scale))
    return code + side * half + torch.sign(slope) * beyond * binades(code, scale)


def _worth_most(start: Stack, worth: Stack, share: float) -> list[Tensor]:
    """Which inputs of every tensor are worth most."""
    chosen = []
    for x, slope in zip(start.tensors(), worth.tensors(), strict=True):
        worths = (slope * x).abs()
        least = worths.flatten(1).quantile(1 - share, dim=1)[:, None, None, None]
        chosen.append(worths >= least)
    return chosen


def _by_chance(rng: np.random.Generator, start: Stack, worth: Stack, share: float) -> list[Tensor]:
    """Some inputs of every tensor, fewer than are worth most."""
    few = share**CHANCE
    shapes = (x.shape for x in start.tensors())
    return [torch.from_numpy(rng.random(shape, np.float32) < few) for shape in shapes]


def _moved(start: Stack, far: Stack, chosen: list[Tensor]) -> Stack:
    """The chosen inputs moved, the others as they are."""
    pairs = zip(chosen, far.tensors(), start.tensors(), strict=True)
    return Stack(*(torch.where(some, y, x) for some, y, x in pairs))
