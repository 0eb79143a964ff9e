"""The pictures: loss minus exact attention's, and the mean of K, group by group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from types import MappingProxyType
from typing import Any

from dmverify.studies.plot import Panel, Plot, Series
from dmverify.studies.separate.beside import alive, sharp_seeds
from dmverify.studies.separate.places import FREE, PUSHED, at, of
from dmverify.studies.separate.report import base_of
from dmverify.studies.separate.table import STALE, TITLES
from dmverify.studies.training.read import Record
from dmverify.studies.training.statistics import paired

PICTURED: MappingProxyType[str, tuple[str, bool]] = MappingProxyType(
    {
        "fast-biases": ("fast-biases", False),
        "act": ("act", True),
        "kernel-fast-biases": ("kernel-fast-biases", False),
        "late-fast": ("late-fast", False),
        "factor-no-decay": (FREE, False),
        "no-decay-act": (FREE, True),
        "usual-tf32": ("usual-tf32", False),
        "late": ("late", False),
    }
)
"""Pictures: the group, and whether its interventions are drawn, beside stale, or its other runs."""
FEW = 3  # seeds
# A colour for what is done to dK or to the normaliser, else for the delta.
COLOURS: MappingProxyType[str, str] = MappingProxyType(
    {
        "project": "renormalized", "freeze": "shifted", "inject": "associated",
        "stale-dq": "consistent", "stale-dk": "grey", "alternate": "matched",
    }
)  # fmt: skip

KERNEL: MappingProxyType[str, str] = MappingProxyType({"stale": "grey", "matched": "renormalized"})


def plots(records: Sequence[Record]) -> tuple[Plot, ...]:
    """One a group that has exact attention beside it."""
    return tuple(plot for name in PICTURED for plot in _plot(records, name))


def _plot(records: Sequence[Record], name: str) -> Iterator[Plot]:
    label, acts = PICTURED[name]
    mine = [r for r in records if r["label"] == label and bool(r["recipe"]["act"]) == acts]
    base = base_of(records, mine[0]) if mine else None
    if base is None or all(run is base for run in mine):
        return
    pushed = at(records, of(FREE, STALE) if label == FREE else PUSHED) if acts else None
    mine += [pushed] if pushed is not None else []
    runs = [base, *(run for run in mine if run is not base)]
    steps = [point["step"] for point in base["points"] if alive(point)]
    yield Plot(
        name,
        f"{TITLES[label]}. Left: validation loss minus exact attention's, {_drawn(base)}. "
        "Middle: the share of K that is its mean over tokens, over layers and seeds. "
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
    if (recipe["arithmetic"], recipe["delta"], recipe["normaliser"]) == ("fp8", "stale", "codes"):
        colour = "shifted"
    colour = KERNEL[recipe["delta"]] if recipe["arithmetic"] == "kernel" else colour
    plain = exact and not recipe["act"]
    solid = plain or (recipe["centre_k"] == "none" and not exact)
    return colour, "measured" if solid else "variant"


def _points(record: Record, steps: Sequence[int]) -> list[dict[str, Any] | None]:
    """What was seen at some steps; None where the run was not looked at, or had died."""
    found = {point["step"]: point for point in record["points"] if alive(point)}
    return [found.get(step) for step in steps]


def _drawn(base: Record) -> str:
    return "a line a seed" if _few(base) else "mean over paired seeds, bars 95 %"


def _few(base: Record) -> bool:
    """Whether an interval would say less than the seeds themselves."""
    return len(base["seeds"]) <= FEW


def _gaps(runs: Sequence[Record], base: Record, steps: Sequence[int]) -> tuple[Series, ...]:
    lines = _of_seeds if _few(base) else _of_mean
    return tuple(line for run in runs for line in lines(run, base, steps))


def _of_seeds(run: Record, base: Record, steps: Sequence[int]) -> Iterator[Series]:
    """A line a seed; the legend has the first."""
    both = list(zip(_points(run, steps), _points(base, steps), strict=True))
    for i in range(len(base["seeds"])):
        y = [a["validation"][i] - b["validation"][i] if a and b else None for a, b in both]
        yield Series("" if i else run["name"], y, *_look(run))


def _of_mean(run: Record, base: Record, steps: Sequence[int]) -> Iterator[Series]:
    """The mean, and its interval."""
    both = zip(_points(run, steps), _points(base, steps), strict=True)
    gaps = [paired(a["validation"], b["validation"]) if a and b else None for a, b in both]
    means = [None if gap is None else gap.mean for gap in gaps]
    halves = [None if gap is None else gap.half for gap in gaps]
    yield Series(run["name"], means, *_look(run), half=halves)


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
