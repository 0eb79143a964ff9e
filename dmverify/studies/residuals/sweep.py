"""Runs the grid: every input once in float64, then under each variant.

Runs go side by side in threads (numpy releases the interpreter in its array loops); the rows come
back in the order of the grid, whatever finishes first.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from dmverify.conformance.families import generate
from dmverify.spec.arithmetic import Double
from dmverify.spec.attention import interpret
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem
from dmverify.studies.residuals.grid import BIT_SEEDS, Grid, ModeVariant
from dmverify.studies.residuals.measures import Measures, measure
from dmverify.studies.study import Progress
from dmverify.studies.toy_heads import TOY, toy_heads


@dataclass(frozen=True)
class Point:
    """One tensor set of the grid.

    Attributes:
        inputs: ``gaussian``, ``outlier`` or the name of a capture.
        spread: Logit spread; 1 for captures.
        seed: 0 for captures.
    """

    inputs: str
    spread: float = 1.0
    seed: int = 0

    def tensors(self) -> tuple[Problem, Inputs]:
        """The problem and its inputs."""
        if "/" in self.inputs:
            case = generate(f"capture/{self.inputs}@0")
            return case.problem, case.inputs
        return TOY, toy_heads(self.inputs, self.spread, seed=self.seed)

    def __str__(self) -> str:
        if "/" in self.inputs:
            return self.inputs
        return f"{self.inputs}, spread {self.spread:g}, seed {self.seed}"


Job = tuple[Point, tuple[ModeVariant, ...]]
Found = dict[tuple[Point, ModeVariant], Measures]


def jobs(grid: Grid, seeds: Sequence[int]) -> list[Job]:
    """Every tensor set with the variants that run on it."""
    drawn = [
        (Point(inputs, spread, seed), _variants(grid, inputs, seed in seeds[:BIT_SEEDS]))
        for inputs in grid.input_sets
        for spread in grid.spreads
        for seed in seeds
    ]
    return drawn + [(Point(name), grid.trained) for name in grid.captures]


def _variants(grid: Grid, inputs: str, bits: bool) -> tuple[ModeVariant, ...]:
    if inputs != "gaussian":
        return grid.main
    return grid.main + grid.extra + (grid.bits if bits else ())


def sweep(work: Sequence[Job], progress: Progress) -> Found:
    """The measures of every tensor set under each of its variants."""
    found: Found = {}
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        waiting = {pool.submit(_run, job): job[0] for job in work}
        for count, future in enumerate(as_completed(waiting), start=1):
            found |= future.result()
            progress(f"{count}/{len(work)}: {waiting[future]}")
    return found


def _run(job: Job) -> Found:
    point, variants = job
    problem, inputs = point.tensors()
    reference = interpret(variants[0].contract, problem, inputs, Double())
    return {
        (point, variant): measure(
            interpret(variant.contract, problem, inputs, variant.arithmetic, internals=True),
            reference,
        )
        for variant in variants
    }
