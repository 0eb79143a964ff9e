"""Engines that draw: plain N(0, 1), the family at random, and CMA on the family.

N. Hansen, "The CMA evolution strategy: a tutorial", arXiv 1604.00772; the package ``cma``.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch

from dmverify.attack.engines import family
from dmverify.attack.engines.base import Turn
from dmverify.attack.limits import Near
from dmverify.attack.stack import NAMES, Stack
from dmverify.errors import naming_extras

BATCH = 256
POPULATION = 64


def random(turn: Turn) -> None:
    """N(0, 1), or uniform in the box around a capture: what a user would try first."""
    for count in _batches(turn):
        turn.judge(drawn(turn, count))


def drawn(turn: Turn, count: int) -> Stack:
    """Candidates without any search."""
    limits, shapes = turn.evaluator.limits, turn.evaluator.problem.shapes()
    if isinstance(limits, Near):
        return uniform(limits, count, turn.rng)
    draws = (turn.rng.standard_normal((count, *shapes[name][1:])) for name in NAMES)
    return Stack(*(torch.from_numpy(x.astype(np.float32)) for x in draws))


def uniform(limits: Near, count: int, rng: np.random.Generator) -> Stack:
    """Candidates anywhere in the box."""
    low, high = limits.box()
    pairs = zip(low.tensors(), high.tensors(), strict=True)
    return Stack(*(a + (b - a) * _unit(rng, (count, *a.shape[1:])) for a, b in pairs))


def random_family(turn: Turn) -> None:
    """Parameters of the family at random."""
    noise = family.draw(turn.evaluator.problem, turn.rng)
    for count in _batches(turn):
        turn.judge(family.build(noise, turn.rng.normal(0, 1, (count, family.SIZE))))


def cma(turn: Turn) -> None:
    """CMA on the family's parameters.

    Raises:
        DependencyError: Without the package.
    """
    with naming_extras(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from cma import CMAEvolutionStrategy
    noise = family.draw(turn.evaluator.problem, turn.rng)
    options = {
        "popsize": POPULATION,
        "seed": int(turn.rng.integers(1, 2**31)),
        "verbose": -9,
        "verb_log": 0,
    }
    strategy = CMAEvolutionStrategy(np.zeros(family.SIZE), family.STEP, options)
    for _ in range(max(turn.evaluations // POPULATION, 1)):
        asked = strategy.ask()
        values = turn.judge(family.build(noise, np.asarray(asked)))
        strategy.tell(asked, [-float(value) for value in values])


def _unit(rng: np.random.Generator, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.from_numpy(rng.random(shape).astype(np.float32))


def _batches(turn: Turn) -> list[int]:
    size = turn.evaluator.room(BATCH)
    full, rest = divmod(turn.evaluations, size)
    return [size] * full + ([rest] if rest else [])
