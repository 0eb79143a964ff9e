"""The pictures: loss minus exact attention's, and the mean of K, group by group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from types import MappingProxyType
from typing import Any

from dmverify.studies.plot import Panel, Plot, Series
from dmverify.studies.separate.beside import alive, sharp_seeds
from dmverify.studies.separate.places import PUSHED, at
from dmverify.studies.separate.report import base_of
from dmverify.studies.separate.table import TITLES
from dmverify.studies.training.read import Record
from dmverify.studies.training.statistics import paired

PICTURED = (
    "fast-biases",
    "act",
    "kernel-fast-biases",
    "late-fast",
    "factor-no-decay",
    "usual-tf32",
    "late",
)
# A colour for what is done to dK or to the normaliser, else for the delta.
COLOURS: MappingProxyType[str, str] = MappingProxyType(
    {
        "project": "renormalized", "freeze": "shifted", "inject": "associated",
        "stale-dq": "consistent", "stale-dk": "grey", "alternate": "matched",
    }
)  # fmt: skip


def plots(records: Sequence[Record]) -> tuple[Plot, ...]:
    """One a group that has exact attention beside it."""
    return tuple(plot for label in PICTURED for plot in _plot(records, label))


def _plot(records: Sequence[Record], label: str) -> Iterator[Plot]:
    mine = [run for run in records if run["label"] == label]
    base = base_of(records, mine[0]) if mine else None
    if base is None or all(run is base for run in mine):
        return
    pushed = at(records, PUSHED)
    mine += [pushed] if label == "act" and pushed is not None else []
    runs = [base, *(run for run in mine if run is not base)]
    steps = [point["step"] for point in base["points"] if alive(point)]
    yield Plot(
        label,
        f"{TITLES[label]}. Left: validation loss minus exact attention's, mean over paired seeds, "
        "bars 95 %. Middle: the share of K that is its mean over tokens, over layers and seeds. "
        "Right: seeds in which the median row of a layer has less than 0.1 nats of entropy.",
        "step",
        steps,
        (
            Panel("loss minus exact", "nats", _gaps(runs[1:], base, steps), y_scale="linear"),
            Panel("mean of K", "|mean of K| / |K|", _lines(runs, steps, _mean), y_scale="linear"),
            Panel("seeds with a sharp layer", "seeds", _lines(runs, steps, _sharp), None, "linear"),
        ),
        x_scale="linear",
    )


def _look(record: Record) -> tuple[str, str]:
    """Colour and line: what is written in the recipe decides both."""
    recipe = record["recipe"]
    exact = recipe["arithmetic"] == "exact"
    colour = COLOURS.get(recipe["act"], "plain" if exact else recipe["delta"])
    if recipe["arithmetic"] == "fp8" and recipe["normaliser"] == "codes":
        colour = "associated"
    plain = exact and not recipe["act"]
    solid = plain or (recipe["centre_k"] == "none" and not exact)
    return colour, "measured" if solid else "variant"


def _points(record: Record, steps: Sequence[int]) -> list[dict[str, Any] | None]:
    """What was seen at some steps; None where the run was not looked at, or had died."""
    found = {point["step"]: point for point in record["points"] if alive(point)}
    return [found.get(step) for step in steps]


def _gaps(runs: Sequence[Record], base: Record, steps: Sequence[int]) -> tuple[Series, ...]:
    lines = []
    for run in runs:
        both = zip(_points(run, steps), _points(base, steps), strict=True)
        gaps = [paired(a["validation"], b["validation"]) if a and b else None for a, b in both]
        means = [None if gap is None else gap.mean for gap in gaps]
        halves = [None if gap is None else gap.half for gap in gaps]
        lines.append(Series(run["name"], means, *_look(run), half=halves))
    return tuple(lines)


def _lines(
    runs: Sequence[Record],
    steps: Sequence[int],
    value: Callable[[dict[str, Any]], float | None],
) -> tuple[Series, ...]:
    return tuple(
        Series(
            run["name"],
            [None if point is None else value(point) for point in _points(run, steps)],
            *_look(run),
        )
        for run in runs
    )


def _mean(point: dict[str, Any]) -> float:
    """|mean K| / |K|, mean over layers and seeds."""
    return fmean(x for layer in point["layers"] for x in layer["k_mean"])


def _sharp(point: dict[str, Any]) -> float | None:
    return sharp_seeds([point])
