"""Paired differences between seeds, with 95 % intervals by Student's t."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

# The 97.5 % point of Student's t by degrees of freedom.
T975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201)


@dataclass(frozen=True)
class Paired:
    """The mean of some differences and the half width of its interval.

    Attributes:
        mean: Mean of the differences.
        half: Half the width of the 95 % interval; None for a single seed.
        seeds: How many there are.
    """

    mean: float
    half: float | None
    seeds: int

    @property
    def apart(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.half is not None and abs(self.mean) > self.half

    def __str__(self) -> str:
        spread = "" if self.half is None else f" ± {self.half:.3f}"
        return f"{self.mean:+.3f}{spread}"


def interval(values: Sequence[float]) -> Paired:
    """The mean of values, one a seed, with its interval."""
    n = len(values)
    half = T975[n - 2] * stdev(values) / n**0.5 if n > 1 else None
    return Paired(fmean(values), half, n)


def paired(ours: Sequence[float], base: Sequence[float]) -> Paired:
    """Seed by seed, ours minus base; the seeds that both have."""
    return interval([a - b for a, b in zip(ours, base, strict=False)])
