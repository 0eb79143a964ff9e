"""An attempt: rounds of engines from one seed, which can be stopped and gone on with.

The number of evaluations decides what is found, however fast the machine is: they are divided
into rounds of ``ROUND``, each uses every engine in the order of its table, and the state after a
round is the seed, the round and the best candidates. A time limit only ends an attempt between
two rounds. Not covered: machines whose float32 products differ in the last bit may go other ways.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from dmverify.attack.engines import AGAIN, ENGINES, ORDERS, Best, Turn
from dmverify.attack.evaluate import WORST, Evaluator
from dmverify.attack.limits import Near
from dmverify.attack.objective import ERRORS, Objective
from dmverify.attack.stack import Stack
from dmverify.errors import InputError, unknown_name

ROUND = 30_000  # evaluations
SHORT_ROUND, SHORT_ROUNDS = 5_000, 6  # evaluations of a round from known candidates, rounds at most
Save = Callable[["Attempt"], None]


@dataclass(eq=False)
class Attempt:
    """What one seed has found so far.

    Attributes:
        seed: Seed of its draws.
        best: The worst candidates.
        rounds: How many rounds are done.
        evaluations: How many candidates were evaluated.
        gains: By engine, how much its turns added to the largest value.
    """

    seed: int
    best: Best = field(default_factory=Best)
    rounds: int = 0
    evaluations: int = 0
    gains: dict[str, float] = field(default_factory=dict)

    @property
    def worst(self) -> Stack:
        """The one worst candidate.

        Raises:
            InputError: If no candidate was allowed and finite.
        """
        if self.best.stack is None:
            raise InputError(
                "an attack without an allowed candidate",
                rule="engines start from candidates that the limits allow",
                fix="allow more evaluations, other limits, or another shape",
            )
        return self.best.stack[:1]


def attack(
    evaluator: Evaluator,
    *,
    seed: int,
    evaluations: int,
    seconds: float | None = None,
    start: Stack | None = None,
    engine: str = "",
    attempt: Attempt | None = None,
    save: Save = lambda attempt: None,
) -> Attempt:
    """Runs one attempt, or goes on with it.

    Args:
        evaluator: The kernel, the objective, the limits.
        seed: Seed of the draws.
        evaluations: Evaluations of the whole attempt.
        seconds: After which no further round begins; None sets no limit.
        start: A candidate that is known beforehand, such as a capture.
        engine: The only one that is used; empty for all in their order.
        attempt: What an earlier call left.
        save: Called after every round.

    Raises:
        InputError: For no evaluations.
        UnknownNameError: For an engine that does not exist.
    """
    if evaluations < 1:
        raise InputError(
            f"{evaluations} evaluations",
            rule="a search has at least one evaluation",
            fix="pass --evaluations 100000",
        )
    if engine and engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)
    known = attempt or Attempt(seed)
    began = time.monotonic()
    if start is not None and known.best.stack is None:
        known.best.add(start, evaluator.values(start))
    order = ORDERS[isinstance(evaluator.limits, Near), _from_inputs(evaluator.objective)]
    if engine:
        order = ((engine, 1.0),)
    for number in range(known.rounds, -(-evaluations // ROUND)):
        if seconds is not None and time.monotonic() - began >= seconds:
            break
        size = min(ROUND, evaluations - number * ROUND)
        _round(evaluator, known, order, size)
        known.rounds = number + 1
        save(known)
    return known


def gone_on(evaluator: Evaluator, starts: Stack, *, enough: float) -> Attempt:
    """Short rounds from known candidates, which are brought within the limits first.

    Args:
        evaluator: The kernel, the objective, the limits.
        starts: The candidates.
        enough: The value at which no further round begins.
    """
    known = Attempt(seed=0)
    Turn(evaluator, 0, np.random.default_rng(0), known.best).judge(starts)
    while known.rounds < SHORT_ROUNDS and known.best.value < enough:
        _round(evaluator, known, AGAIN, SHORT_ROUND)
        known.rounds += 1
    return known


def _from_inputs(objective: Objective) -> bool:
    """Whether rounding errors of the operands count: what ``align`` and ``corners`` work on."""
    return objective.against == "inputs" and objective.name in ERRORS


def _round(
    evaluator: Evaluator, known: Attempt, order: tuple[tuple[str, float], ...], size: int
) -> None:
    for place, (name, share) in enumerate(order):
        before, count = known.best.value, evaluator.count
        rng = np.random.default_rng([known.seed, known.rounds, place])
        ENGINES[name](Turn(evaluator, max(int(size * share), 1), rng, known.best))
        gain = known.best.value - max(before, 0.0) if known.best.value > WORST else 0.0
        known.gains[name] = known.gains.get(name, 0.0) + gain
        known.evaluations += evaluator.count - count


def baseline(evaluator: Evaluator, *, seed: int, evaluations: int) -> float:
    """The largest value that drawing alone finds with as many evaluations."""
    best = Best()
    ENGINES["random"](Turn(evaluator, evaluations, np.random.default_rng([seed]), best))
    return best.value


def spread(values: list[float]) -> tuple[float, float, float]:
    """Smallest, median and largest of some seeds."""
    sorted_values = torch.tensor(sorted(values), dtype=torch.float64)
    return float(sorted_values[0]), float(sorted_values.median()), float(sorted_values[-1])
