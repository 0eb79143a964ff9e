"""One run beside another: paired differences at the last common step, and what a run lost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from dmverify.studies.training.read import Record
from dmverify.studies.training.statistics import Paired, paired

LOST = 0.5  # of sum |dS|: from there on a row is mostly its own error
SHARP = 0.1  # nats: below, nearly all of a row's probability is on one key


@dataclass(frozen=True)
class Beside:
    """A run minus another, seed by seed.

    Attributes:
        step: The last at which both were looked at and every seed of both was alive.
        gap: Gap of the validation loss, nats.
        gaps: The same, seed by seed.
        drift: Drift of the logarithm of |mean of K| / |K|, mean over layers.
        drift_first: The same of the first layer.
    """

    step: int
    gap: Paired
    gaps: tuple[float, ...]
    drift: Paired
    drift_first: Paired

    @property
    def worst(self) -> float:
        """The largest difference of one seed."""
        return max(self.gaps)


def beside(record: Record, base: Record) -> Beside:
    """Paired over the seeds that both have."""
    of_base = {point["step"]: point for point in base["points"] if alive(point)}
    mine = [p for p in record["points"] if p["step"] in of_base and alive(p)][-1]
    theirs = of_base[mine["step"]]
    pairs = zip(mine["validation"], theirs["validation"], strict=False)
    drift, first = (
        paired(_drift_of(mine, layers), _drift_of(theirs, layers))
        for layers in (slice(None), slice(1))
    )
    return Beside(
        mine["step"],
        paired(mine["validation"], theirs["validation"]),
        tuple(a - b for a, b in pairs),
        drift,
        first,
    )


def alive(point: dict[str, Any]) -> bool:
    """Whether no seed has met a NaN."""
    means = (x for layer in point["layers"] for x in layer["k_mean"])
    return None not in (*point["validation"], *means)


def _drift_of(point: dict[str, Any], layers: slice) -> list[float]:
    """The logarithm of |mean K| / |K|, mean over some layers, a seed."""
    values = zip(*(layer["k_mean"] for layer in point["layers"][layers]), strict=True)
    return [math.log(fmean(of_seed)) for of_seed in values]


def lost(record: Record) -> int | None:
    """Seeds with a layer whose median row keeps nothing but its row sum, at any probe."""
    points = record["points"][1:]
    if not points or not all("residual" in layer for layer in points[-1]["layers"]):
        return None
    return sum(
        any((layer["residual"][i] or 0) > LOST for p in points for layer in p["layers"])
        for i in range(len(record["seeds"]))
    )


def sharp(record: Record) -> int | None:
    """Seeds with a layer whose median row was sharp at some probe after the first."""
    return sharp_seeds(record["points"][1:])


def stayed(record: Record) -> int | None:
    """Seeds with a layer whose median row is sharp at the last probe."""
    return sharp_seeds(record["points"][1:][-1:])


def sharp_seeds(points: list[dict[str, Any]]) -> int | None:
    """Seeds with a layer whose median row is sharp at one of the probes; None if not seen."""
    layers = [layer for point in points for layer in point["layers"]]
    if not layers or not all("entropy" in layer for layer in layers):
        return None
    return sum(_flags(layers))


def sharp_flags(record: Record) -> list[bool]:
    """Whether each seed had a layer whose median row was sharp at some probe after the first."""
    return _flags([layer for point in record["points"][1:] for layer in point["layers"]])


def _flags(layers: list[dict[str, Any]]) -> list[bool]:
    by_seed = zip(*(layer["entropy"] for layer in layers), strict=True)
    return [any((x or 0) < SHARP for x in values) for values in by_seed]


def with_half(mean: float | None, half: float | None) -> str:
    """A difference with its interval."""
    if mean is None:
        return "-"
    return f"{mean:+.3f}" + ("" if half is None else f" ± {half:.3f}")


def times(mean: float | None, half: float | None) -> str:
    """A ratio with its interval, from logarithms."""
    if mean is None:
        return "-"
    inside = (
        "" if half is None else f" ({math.exp(mean - half):.2f} to {math.exp(mean + half):.2f})"
    )
    return f"{math.exp(mean):.2f}{inside}"
