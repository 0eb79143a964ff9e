"""A whole attack: several seeds, a baseline, the worst of all shrunk and explained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from functools import partial
from math import isfinite
from pathlib import Path

import torch

from dmverify import __version__
from dmverify.attack.checkpoint import load, save
from dmverify.attack.corpus import Entry, Found, digest
from dmverify.attack.evaluate import Evaluator
from dmverify.attack.explain import Explanation, explain
from dmverify.attack.first_order import ERRORS, first_order
from dmverify.attack.limits import Limits, get_limits, near
from dmverify.attack.objective import Distance, Objective
from dmverify.attack.search import Attempt, attack, baseline
from dmverify.attack.shrink import Small, shrink
from dmverify.attack.stack import Stack, require_one
from dmverify.attack.wide import Wide, require_device, searched
from dmverify.conformance.pool import Pool, in_order
from dmverify.conformance.resolve import resolve_kernel
from dmverify.errors import InputError
from dmverify.spec.contracts import get_contract
from dmverify.spec.problem import Problem

Told = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """What an attack is asked to do.

    Attributes:
        kernel: Name of the kernel.
        contract: Name of its contract; empty for its own.
        problem: Problem of one candidate.
        objective: What is maximised.
        limits: Name of the limits, where there is no capture.
        centre: q, k, v, do of the capture, (1, N, H, D), or None.
        within: Half of the box around it, as a fraction.
        evaluations: Evaluations of each seed.
        seconds: Seconds of each seed; None sets no limit.
        state: Where attempts leave their state; None for nowhere.
        device: Where the float interpretation is searched first, in torch's words.
        device_evaluations: Evaluations of that search for each seed; 0 for none.
        engine: The only one that is used; empty for all.
    """

    kernel: str
    contract: str
    problem: Problem
    objective: Objective
    limits: str = "statistical"
    centre: Stack | None = None
    within: float = 0.03
    evaluations: int = 100_000
    seconds: float | None = None
    state: Path | None = None
    device: str = "cpu"
    device_evaluations: int = 0
    engine: str = ""

    def evaluator(self) -> Evaluator:
        """The kernel loaded, in this process.

        Raises:
            InputError: For a problem that is no single batch, or that the kernel does not serve.
            UnknownNameError: For a name that does not exist.
        """
        require_one(self.problem)
        require_device(self.device)
        kernel = resolve_kernel(self.kernel, in_process=True)
        other = self.objective.other
        limits: Limits = get_limits(self.limits)
        if self.centre is not None:
            limits = near(self.centre, self.within)
        contract = get_contract(self.contract or kernel.contract).name
        made = Evaluator(
            kernel,
            contract,
            self.problem,
            self.objective,
            limits,
            resolve_kernel(other, in_process=True) if other else None,
        )
        return made


@dataclass(frozen=True, eq=False)
class Result:
    """What an attack found.

    Attributes:
        attempts: One a seed.
        best: The one with the largest value.
        drawn: The largest value that drawing alone finds with a tenth of the evaluations.
        distances: Distances of the worst candidate, by output.
        small: The worst candidate shrunk.
        shares: Part of its first-order worst case that the worst of each seed attains.
        explanation: What makes the worst candidate bad; None unless an output's error is sought.
        entry: The worst candidate as a file holds it.
    """

    attempts: tuple[Attempt, ...]
    best: Attempt
    drawn: float
    distances: dict[str, Distance]
    small: Small
    shares: tuple[float, ...]
    explanation: Explanation | None
    entry: Entry


def run(settings: Settings, seeds: Sequence[int], *, jobs: int = 1, tell: Told) -> Result:
    """Attacks from every seed and looks at the worst find.

    Args:
        settings: What to do.
        seeds: Seeds; each is an attempt.
        jobs: Attempts side by side.
        tell: Called with a line when an attempt ends.

    Raises:
        InputError: If a setting is wrong, or no attempt found an allowed candidate.
    """
    evaluator = settings.evaluator()
    evaluator.require_served(_one(settings))
    calls = ((str(seed), partial(attempt_of, settings, seed)) for seed in seeds)
    attempts = []
    with nullcontext() if jobs == 1 else Pool(jobs) as pool:
        for attempt in in_order(calls, pool):
            tell(f"seed {attempt.seed}: {attempt.best.value:.4g}")
            attempts.append(attempt)
    best = max(attempts, key=lambda attempt: attempt.best.value)
    worst = best.worst
    drawn = baseline(evaluator, seed=seeds[0], evaluations=max(settings.evaluations // 10, 1))
    tell(f"drawing alone: {drawn:.4g}")
    known = settings.objective.name in ERRORS
    return Result(
        tuple(attempts),
        best,
        drawn,
        evaluator.distances(worst),
        shrink(evaluator, worst),
        tuple(first_order(evaluator, one.worst).share for one in attempts) if known else (),
        explain(evaluator, worst) if known else None,
        Entry(settings.problem, worst, _found(settings, evaluator, best)),
    )


def attempt_of(settings: Settings, seed: int) -> Attempt:
    """One attempt, from where an earlier one stopped."""
    evaluator = settings.evaluator()
    earlier = load(settings, seed)
    if earlier is None and settings.device_evaluations:
        earlier = _searched_first(settings, evaluator, seed)
    keep = partial(save, settings)
    return attack(
        evaluator,
        seed=seed,
        evaluations=settings.evaluations,
        seconds=settings.seconds,
        start=settings.centre,
        engine=settings.engine,
        attempt=earlier,
        save=keep,
    )


def _searched_first(settings: Settings, evaluator: Evaluator, seed: int) -> Attempt:
    """An attempt that begins with what the device finds."""
    known = {field.name: getattr(evaluator, field.name) for field in fields(Evaluator)}
    wide = Wide(**known, place=settings.device)
    few, start = settings.device_evaluations, settings.centre
    best = searched(wide, evaluator, seed=seed, evaluations=few, start=start)
    gains = {"device": max(best.value, 0.0)}
    return Attempt(seed, best, evaluations=wide.count, gains=gains)


def asked_of(entry: Entry, kernel: str, contract: str, objective: Objective) -> dict[str, Distance]:
    """How a kernel does on an input that was found for another."""
    settings = Settings(kernel, contract, entry.problem, objective)
    evaluator = settings.evaluator()
    evaluator.require_served(entry.stack)
    return evaluator.distances(entry.stack)


def asked_corpus(kernel: str, contract: str, entries: Sequence[Entry]) -> list[dict[str, object]]:
    """How a kernel does on every input of a corpus, in what the input was found for.

    Args:
        kernel: Its name.
        contract: Its contract; empty for its own.
        entries: The corpus.

    Returns:
        A row each: which input, what it was found for, the error that was found and the kernel's,
        or why it does not serve the input. What is no error of an output is left out.
    """
    rows: list[dict[str, object]] = []
    for entry in entries:
        found = entry.found
        if found.objective not in ERRORS:
            continue
        row: dict[str, object] = {
            "input": found.inputs[:16],
            "output": found.objective,
            "against": found.against,
            "found for": found.contract,
            "there": found.value,
        }
        try:
            far = asked_of(entry, kernel, contract, Objective(found.objective, found.against))
            value, refused = float(far[found.objective].value[0]), ""
            rows.append(row | {"here": value if isfinite(value) else None, "refused": refused})
        except InputError as error:
            rows.append(row | {"here": None, "refused": str(error)})
    return rows


def _one(settings: Settings) -> Stack:
    if settings.centre is not None:
        return settings.centre
    shapes = settings.problem.shapes()
    return Stack(*(torch.ones(shapes[name]) for name in ("q", "k", "v", "do")))


def _found(settings: Settings, evaluator: Evaluator, best: Attempt) -> Found:
    objective = settings.objective
    named = f"{objective.name}:{objective.other}" if objective.other else objective.name
    return Found(
        kernel=settings.kernel,
        contract=evaluator.contract,
        objective=named,
        against=objective.against,
        limits=evaluator.limits.name,
        value=best.best.value,
        seed=best.seed,
        evaluations=best.evaluations,
        version=__version__,
        inputs=digest(best.worst),
    )
