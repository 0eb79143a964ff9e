"""Hill climbing on many chains: change a few elements, keep what is no better for the kernel."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dmverify.attack.engines.base import Turn
from dmverify.attack.evaluate import WORST
from dmverify.attack.stack import Stack

CHAINS = 64
SHARES = (0.001, 0.004, 0.02, 0.1)  # of the elements of a tensor that change
ULPS = 64  # the largest change, in units in the last place of BF16
RESAMPLED = 0.3  # of the changes are new numbers
RESTART = 200  # steps after which the worst half of the chains starts from the best


def hill(turn: Turn) -> None:
    """Starts from the best candidates there are."""
    if turn.best.stack is None:
        return
    start = torch.arange(CHAINS) % len(turn.best.stack)
    chains, values = turn.best.stack[start], turn.best.values[start].clone()
    for step in range(max(turn.evaluations // CHAINS, 1)):
        changed = turn.evaluator.limits.repair(turn.evaluator.problem, _moved(chains, turn.rng))
        found = turn.evaluator.values(changed)
        better = (found >= values) & (found > WORST)
        turn.best.add(changed[better], found[better])
        pairs = zip(changed.tensors(), chains.tensors(), strict=True)
        chains = Stack(*(torch.where(better[:, None, None, None], a, b) for a, b in pairs))
        values = torch.where(better, found, values)
        if step % RESTART == RESTART - 1:
            order = torch.argsort(values, descending=True, stable=True)
            again = order[: CHAINS // 2].repeat(2)
            chains, values = chains[again], values[again]


def _moved(chains: Stack, rng: np.random.Generator) -> Stack:
    """Every chain has some elements of one tensor changed."""
    tensors = list(chains.tensors())
    which = torch.from_numpy(rng.integers(len(tensors), size=len(chains)))
    for i, x in enumerate(tensors):
        chosen = which == i
        if chosen.any():
            tensors[i] = x.clone()
            tensors[i][chosen] = _changed(x[chosen], rng)
    return Stack(*tensors)


def _changed(x: Tensor, rng: np.random.Generator) -> Tensor:
    shares = rng.choice(SHARES, size=(len(x), 1, 1, 1))
    flat, places = x.flatten(), np.flatnonzero(rng.random(x.shape, np.float32) < shares)
    old, chain = flat[places], places // x[0].numel()
    steps = torch.from_numpy(rng.integers(-ULPS, ULPS + 1, len(places)).astype(np.float32))
    fresh = torch.from_numpy(rng.standard_normal(len(places), np.float32)) * 2
    resampled = torch.from_numpy((rng.random(len(x)) < RESAMPLED)[chain])
    unit = old.abs().clamp_min(2.0**-12) * 2.0**-7
    flat[places] = torch.where(resampled, fresh, old + steps * unit)
    return flat.view(x.shape)
