"""Every row of an output searched by itself: candidates change all rows, the best rows are joined.

With K and V as they are, row i of dQ and O depends on row i of Q and dO alone, but for scales that
rows share; so one evaluation tries a change of every row at once. A row of dK or dV depends on its
own K and V and, through the softmax, a little on others'. A row is better where it adds more to

    |error|^2 - value^2 |scale|^2,

the sum of which over rows is positive just where the joined candidate is worse than the one before
(W. Dinkelbach, On nonlinear fractional programming, 1967). The kernel is asked what came out.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dmverify.attack.engines.base import Turn
from dmverify.attack.engines.draws import drawn
from dmverify.attack.engines.hill import hill
from dmverify.attack.objective import ERRORS, FLOOR, norm
from dmverify.attack.reference import KEY_SIDE
from dmverify.attack.stack import Stack, joined

CANDIDATES = 9  # of which one is as it was
SHARES = (0.015, 0.03, 0.06)  # of a row's elements that change
STEP = 2.0**-4  # of an element, in candidates that do not draw it anew
PARTS = (1.0, 0.5, 0.2)  # of the better rows, taken by chance: rows share scales


def rows(turn: Turn) -> None:
    """Climbs row by row for an output's error; by hill climbing for what is no sum over rows."""
    if turn.evaluator.objective.name not in ERRORS:
        return hill(turn)
    if turn.best.stack is None:
        return None
    count = max(turn.evaluator.room(CANDIDATES), 2)
    for _ in range(max(turn.evaluations // (count + len(PARTS)), 1)):
        start = turn.best.stack[:1]
        options = joined([start, _changed(turn, start, count - 1)])
        turn.judge(_best_rows(turn, options))
    return None


def _searched(turn: Turn, name: str) -> bool:
    """Whether a tensor has the rows of the output, or its heads' keys and values."""
    return (name in ("k", "v")) == (turn.evaluator.objective.name in KEY_SIDE)


def _changed(turn: Turn, start: Stack, count: int) -> Stack:
    """Candidates with some elements changed in every row."""
    fresh, found = drawn(turn, count), {}
    anew = torch.from_numpy(turn.rng.random((count, 1, 1, 1)) < 0.5)
    shares = turn.rng.choice(SHARES, size=(count, 1, 1, 1))
    for name, x in start.items():
        shape = (count, *x.shape[1:])
        chosen = torch.from_numpy(turn.rng.random(shape, np.float32) < shares)
        step = STEP * torch.from_numpy(turn.rng.standard_normal(shape, np.float32))
        changed = torch.where(anew, getattr(fresh, name), x * (1 + step))
        found[name] = torch.where(chosen & _searched(turn, name), changed, x)
    return turn.evaluator.limits.repair(turn.evaluator.problem, Stack(**found))


def _best_rows(turn: Turn, options: Stack) -> Stack:
    """The first candidate with the best rows of all in the place of its own, or some of them."""
    best = _gains(turn, options).argmax(0)  # (N, H)
    found = []
    for part in PARTS:
        taken = torch.from_numpy(turn.rng.random(best.shape) < part)
        at = torch.where(taken, best, 0)[None, :, :, None]
        picked = (
            x.gather(0, at.expand(1, *x.shape[1:])) if _searched(turn, name) else x[:1]
            for name, x in options.items()
        )
        found.append(Stack(*picked))
    return joined(found)


def _gains(turn: Turn, options: Stack) -> Tensor:
    """What every row adds, with the first candidate's value, (C, N, H)."""
    evaluator, name = turn.evaluator, turn.evaluator.objective.name
    evaluator.count += len(options)
    outputs = evaluator.kernel.backward(options.case(evaluator.problem, evaluator.contract))
    due = evaluator.due(options, (name,))
    exact, size = due.outputs[name], FLOOR * due.sizes[name]
    scale = exact if norm(exact[:1]) >= norm(size[:1]) else size
    got = torch.from_numpy(getattr(outputs, name)).double()
    error, scale = ((x.square()).sum(-1) for x in (got - exact, scale))
    value = error[0].sum() / scale[0].sum().clamp_min(torch.finfo(torch.float64).tiny)
    gains: Tensor = (error - value * scale).nan_to_num(-torch.inf)
    return gains
