"""The pictures: loss minus exact attention's, and the mean of K, group by group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from types import MappingProxyType
from typing import Any

from dmverify.studies.plot import Panel, Plot, Series
from dmverify.studies.separate.beside import alive
from dmverify.studies.separate.places import PUSHED, at
from dmverify.studies.separate.report import base_of
from dmverify.studies.separate.table import TITLES
from dmverify.studies.training.read import Record
from dmverify.studies.training.statistics import paired

PICTURED = ("fast-biases", "act", "kernel-fast-biases", "late-fast", "main", "late")
# A colour for what is done to dK or to the normaliser, else for the delta.
COLOURS: MappingProxyType[str, str] = MappingProxyType(
    {"project": "renormalized", "freeze": "shifted", "inject": "associated"}
)


def plots(records: Sequence[Record]) -> tuple[Plot, ...]:
    """One a group that has exact attention beside it."""
    return tuple(plot for label in PICTURED for plot in _plot(records, label))


def _plot(records: Sequence[Record], label: str) -> Iterator[Plot]:
    mine = [run for run in records if run["label"] == label and run["done"]]
    base = base_of(records, mine[0]) if mine else None
    if base is None:
        return
    pushed = at(records, PUSHED)
    mine += [pushed] if label == "act" and pushed is not None else []
    runs = [base, *(run for run in mine if run is not base)]
    steps = sorted(set.intersection(*(_steps(run) for run in runs)))
    gaps = tuple(_gap_line(run, base, steps) for run in runs[1:])
    means = tuple(Series(run["name"], _means(run, steps), *_look(run)) for run in runs)
    yield Plot(
        label,
        f"{TITLES[label]}. Left: validation loss minus exact attention's, mean over paired seeds, "
        "bars 95 %. Right: the share of K that is its mean over tokens, over layers and seeds.",
        "step",
        steps,
        (
            Panel("loss minus exact", "nats", gaps, y_scale="linear"),
            Panel("mean of K", "|mean of K| / |K|", means, y_scale="linear"),
        ),
        x_scale="linear",
    )


def _steps(record: Record) -> set[int]:
    return {point["step"] for point in record["points"] if alive(point)}


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


def _at(record: Record, steps: Sequence[int]) -> list[dict[str, Any]]:
    return [point for point in record["points"] if point["step"] in steps]


def _gap_line(record: Record, base: Record, steps: Sequence[int]) -> Series:
    both = zip(_at(record, steps), _at(base, steps), strict=True)
    gaps = [paired(mine["validation"], theirs["validation"]) for mine, theirs in both]
    halves = [gap.half or 0.0 for gap in gaps]
    return Series(record["name"], [gap.mean for gap in gaps], *_look(record), half=halves)


def _means(record: Record, steps: Sequence[int]) -> list[float]:
    """|mean K| / |K|, mean over layers and seeds."""
    return [
        fmean(x for layer in point["layers"] for x in layer["k_mean"])
        for point in _at(record, steps)
    ]
