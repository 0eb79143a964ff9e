"""Times one step, and refuses to give a time of work that was not done.

| what can go wrong | how it is seen |
|---|---|
| a captured graph is empty, or lacks a part | the outputs are poisoned before it runs: poison is |
| | left |
| work runs on another stream than the clock's | the stream is kept busy, then the outputs are |
| | poisoned: work that did not wait comes too early, and is overwritten |
| a step allocates its outputs and is not captured | nobody can watch them: no time |
| a clock gives 0, a negative number or none | no time |
| a time that the card cannot reach | ``rate``: above the peak of its tensor cores, no time |

Two times are taken. Cold start: the card is idle before each run and its second-level cache holds
other bytes. Back to back: no pause, until the card is as warm and its clock as low as work of this
kind makes them; the second half of the runs counts. Both are medians.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType
from typing import Protocol

import torch

from dmverify.errors import KernelError

Outputs = tuple[torch.Tensor, ...]
Step = Callable[[], Outputs]
Runnable = Callable[[], object]

REPEATS = 30
MOST_REPEATS = 2000
BUSY_MS = 400.0  # of work back to back: a card lowers its clock within a tenth of a second
POISON = -1  # all bits set: NaN in every format of floats that kernels store
INTEGERS = MappingProxyType({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64})

PEAKS = MappingProxyType({"fp8": 1979.0, "bf16": 989.0})
"""Dense TFLOP/s by operands: NVIDIA's datasheet of the H100 and H200 SXM, the fastest of Hopper."""


class NotMeasuredError(KernelError):
    """What was timed is not the work that its name says."""


class Card(Protocol):
    """The GPU, as a measurement uses it; tests put another in its place."""

    def warm_up(self, step: Step) -> None:
        """Runs the step a few times, away from the current stream, and waits."""

    def capture(self, step: Step) -> tuple[Runnable, Outputs]:
        """What replays the step on the current stream, and the memory that it fills."""

    def occupy(self) -> None:
        """Keeps the current stream busy for some milliseconds."""

    def cold(self, run: Runnable, repeats: int) -> list[float]:
        """Milliseconds of single runs on an idle card, none of whose data is cached."""

    def busy(self, run: Runnable, repeats: int) -> list[float]:
        """Milliseconds of each of many runs without a pause."""


@dataclass(frozen=True)
class Timing:
    """What a step takes.

    Attributes:
        cold: Milliseconds, median of runs on an idle card.
        busy: Milliseconds, median of runs back to back.
        how: ``graph`` if a captured graph ran, ``launched`` if the host launched each run.
    """

    cold: float
    busy: float
    how: str


def measure(step: Step, card: Card) -> Timing:
    """Times a step.

    Args:
        step: Launches the work on the current stream, and returns what it fills.
        card: Where it runs.

    Raises:
        NotMeasuredError: What ran did not fill its outputs in time, cannot be watched, or took no
            time. Errors of the step itself pass through.
    """
    card.warm_up(step)
    run, outputs, how = runnable(step, card)
    require_written(run, outputs, card)
    cold = median_ms(card.cold(run, REPEATS))
    repeats = max(REPEATS, min(MOST_REPEATS, math.ceil(BUSY_MS / cold)))
    times = card.busy(run, repeats)
    return Timing(cold, median_ms(times[len(times) // 2 :]), how)


def runnable(step: Step, card: Card) -> tuple[Runnable, Outputs, str]:
    """What runs the step again and again, the memory it fills, and how it runs.

    Raises:
        NotMeasuredError: It cannot be captured, and fills other memory each time.
    """
    try:
        run, outputs = card.capture(step)
    except Exception as error:
        outputs, others = step(), step()
        if [x.data_ptr() for x in outputs] != [x.data_ptr() for x in others]:
            raise NotMeasuredError(
                f"no graph ({type(error).__name__}: {str(error)[:160]}), and outputs elsewhere "
                "in each run",
                rule="a step is captured, or fills the same memory each time",
                fix="let the step fill memory that was made before",
            ) from error
        return step, outputs, "launched"
    return run, outputs, "graph"


def require_written(run: Runnable, outputs: Outputs, card: Card) -> None:
    """Runs once, behind other work on the stream, and looks at every number of the outputs.

    Raises:
        NotMeasuredError: There are no outputs, or work on the current stream left a number of one
            as it was.
    """
    if not sum(x.numel() for x in outputs):
        raise NotMeasuredError(
            "no outputs", rule="a step returns the outputs that it fills", fix="return its outputs"
        )
    codes = [x.detach().view(INTEGERS[x.element_size()]) for x in outputs]
    card.occupy()
    for x in codes:
        x.fill_(POISON)
    run()
    for i, x in enumerate(codes):
        left = int((x == POISON).sum())
        if left:
            raise NotMeasuredError(
                f"{left} of {x.numel()} numbers of output {i} not written",
                rule="what is timed fills its outputs, on the stream that is timed",
                fix="launch the work on torch's current stream",
            )


def median_ms(times: list[float]) -> float:
    """The median of positive times.

    Raises:
        NotMeasuredError: There is none, or one is not a positive number.
    """
    wrong = [x for x in times if not 0 < x < math.inf]
    if wrong or not times:
        raise NotMeasuredError(
            f"{wrong[0] if wrong else 'no'} ms",
            rule="work takes a positive time",
            fix="check the clock, and the stream that it reads",
        )
    return median(times)


def rate(work: float, ms: float, operands: str) -> float:
    """TFLOP/s of work that took so long.

    Args:
        work: Floating-point operations.
        ms: Milliseconds.
        operands: What the tensor core multiplies, a key of ``PEAKS``.

    Raises:
        NotMeasuredError: The card cannot do it.
    """
    found = work / ms / 1e9
    if found > PEAKS[operands]:
        raise NotMeasuredError(
            f"{found:.0f} TFLOP/s in {ms:.4g} ms",
            rule=f"dense {operands} products reach at most {PEAKS[operands]:.0f} TFLOP/s",
            fix="find out what was timed: not this work",
        )
    return found
