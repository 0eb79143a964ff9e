"""What the runs say: paired differences, drift of K, curves, advice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from dmverify.studies.plot import Panel, Plot, Series
from dmverify.studies.rounding import shown
from dmverify.studies.separate.table import TITLES
from dmverify.studies.study import Table
from dmverify.studies.training.read import Record, key_of, largest, last, over_training
from dmverify.studies.training.statistics import paired


def base_of(records: Sequence[Record], record: Record) -> Record | None:
    """The exact run of the same model, steps and precision."""
    words = {name: record[name] for name in ("setting", "steps", "precision")}
    return key_of(records, name="exact", **words)


def rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """One row a run: loss, paired difference, drift of K, one-sidedness, residuals."""
    return [_row(record, base_of(records, record)) for record in records]


def _row(record: Record, base: Record | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "label": record["label"],
        "name": record["name"],
        "model": record["model"],
        "precision": record["precision"],
        "steps": record["reached"],
        "done": record["done"],
        "seeds": len(record["seeds"]),
        "validation": [_finite(x) for x in last(record)],
        "k_mean": [_finite(x) for x in largest(record, "k_mean")],
        "sign": _sign(record),
        "residual": _measure(record, "residual"),
        "residual_cast": _measure(record, "residual_cast"),
        "lost": lost(record),
    }
    return row | (_beside(record, base) if base is not None and base is not record else {})


def lost(record: Record) -> int | None:
    """Seeds with a layer whose median row keeps nothing but its row sum, at any probe."""
    points = record["points"][1:]
    if not all("residual" in layer for layer in points[-1]["layers"]):
        return None
    return sum(
        any((layer["residual"][i] or 0) > LOST for p in points for layer in p["layers"])
        for i in range(len(record["seeds"]))
    )


def _beside(record: Record, base: Record) -> dict[str, Any]:
    """Paired with exact attention at the last step that both were looked at."""
    steps = {point["step"] for point in base["points"]}
    mine = [point for point in record["points"] if point["step"] in steps][-1]
    theirs = next(point for point in base["points"] if point["step"] == mine["step"])
    found: dict[str, Any] = {"compared_at": mine["step"]}
    if None not in mine["validation"]:
        gap = paired(mine["validation"], theirs["validation"])
        found |= {"gap": gap.mean, "half": gap.half}
        pairs = zip(mine["validation"], theirs["validation"], strict=False)
        found["worst"] = max(a - b for a, b in pairs)
    for name, layers in (("drift", slice(None)), ("drift_first", slice(1))):
        drift = paired(_drift_of(mine, layers), _drift_of(theirs, layers))
        found |= {name: drift.mean, f"{name}_half": drift.half}
    return found


def _drift_of(point: dict[str, Any], layers: slice) -> list[float]:
    """The logarithm of |mean K| / |K|, mean over some layers, a seed."""
    values = zip(*(layer["k_mean"] for layer in point["layers"][layers]), strict=True)
    return [math.log(fmean(of_seed)) for of_seed in values]


def _sign(record: Record) -> float:
    """The mean over probes and seeds of the most one-sided layer."""
    return fmean(
        max(layer[i] for layer in point["sign"])
        for point in record["points"][1:]
        for i in range(len(record["seeds"]))
    )


def _finite(x: float) -> float | None:
    return float(f"{x:.5g}") if math.isfinite(x) else None


def _measure(record: Record, name: str) -> float | None:
    if not any(name in layer for layer in record["points"][-1]["layers"]):
        return None
    return _finite(fmean(over_training(record, name)))


COLUMNS = (
    "variant", "model", "products", "seeds", "validation", "minus exact", "worst seed",
    "mean of K: times exact's", "in layer 1", "largest layer", "sign of dK sums", "residual",
    "after cast", "lost",
)  # fmt: skip


def tables(found: Sequence[dict[str, Any]]) -> tuple[Table, ...]:
    """A table a group, in the order of ``TITLES``."""
    made = []
    for label, title in TITLES.items():
        mine = [row for row in found if row["label"] == label]
        if mine:
            made.append(Table(title, COLUMNS, tuple(map(_cells, mine)), NOTE))
    return tuple(made)


NOTE = (
    "Minus exact: seed by seed at the last common step, mean ± 95 %. Mean of K: |mean over tokens| "
    "/ |K|, mean over layers, relative to exact's at that step (geometric mean over seeds and 95 % "
    "interval); the same of the first layer; the largest layer, lowest to highest seed. Sign: "
    "one-sidedness of the column sums of dK between probes, largest layer; about 0.1 for random "
    "signs. Lost: seeds in which, at some probe, |row sum| is more than half of sum |dS| in the "
    "median row of a layer."
)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    mean = fmean(row["validation"]) if None not in row["validation"] else None
    return (
        row["name"] + ("" if row["done"] else f" (stopped at step {row['steps']})"),
        row["model"],
        row["precision"],
        str(row["seeds"]),
        "NaN" if mean is None else f"{mean:.3f}",
        with_half(row.get("gap"), row.get("half")),
        "-" if row.get("worst") is None else f"{row['worst']:+.3f}",
        times(row.get("drift"), row.get("drift_half")),
        times(row.get("drift_first"), row.get("drift_first_half")),
        f"{min(row['k_mean']):.2f} to {max(row['k_mean']):.2f}",
        f"{row['sign']:.2f}",
        shown(row["residual"]),
        shown(row["residual_cast"]),
        "-" if row["lost"] is None else f"{row['lost']} of {row['seeds']}",
    )


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


LOST = 0.5
COLOUR_OF = {
    "exact": "plain", "stale": "stale", "consistent": "consistent", "matched": "matched",
    "kernel stale": "stale", "kernel matched": "matched", "associated": "associated",
}  # fmt: skip


def plots(records: Sequence[Record]) -> tuple[Plot, ...]:
    """Loss minus exact and drift of K, at 1,200 and at 5,400 steps."""
    wanted = (
        ("fast-biases", "1,200 steps at rate 4e-3, biases of q, k, v, three seeds"),
        ("fast", "1,200 steps at rate 4e-3, no biases, three seeds"),
    )
    made = (_plot(records, label, title) for label, title in wanted)
    return tuple(plot for plot in made if plot is not None)


def _plot(records: Sequence[Record], label: str, title: str) -> Plot | None:
    exact = key_of(records, label=label, name="exact")
    if exact is None:
        return None
    last_step = exact["points"][-1]["step"]
    mine = [
        r
        for r in records
        if (r["setting"], r["steps"]) == (exact["setting"], exact["steps"])
        and r["points"][-1]["step"] >= last_step
    ]
    probes = [{point["step"] for point in r["points"]} for r in mine]
    steps = sorted(set.intersection(*probes))
    others = [r for r in mine if r is not exact]
    loss = tuple(_gap_line(r, exact, steps) for r in others)
    drift = tuple(Series(r["name"], _shares(r, steps), *_look(r)) for r in mine)
    return Plot(
        label,
        f"{title}. Left: validation loss minus exact attention's, mean over seeds, bars 95 %. "
        "Right: the share of K that is its mean over tokens, mean over layers and seeds.",
        "step",
        steps,
        (
            Panel("loss minus exact", "nats", loss, y_scale="linear"),
            Panel("mean of K", "|mean of K| / |K|", drift, y_scale="linear"),
        ),
        x_scale="linear",
    )


def _look(record: Record) -> tuple[str, str]:
    colour = COLOUR_OF.get(record["name"].split(",")[0], "grey")
    plain = "centre_k=none" in record["name"] or record["name"] == "exact"
    return colour, "measured" if plain else "variant"


def _at(record: Record, steps: Sequence[int]) -> list[dict[str, Any]]:
    return [point for point in record["points"] if point["step"] in steps]


def _gap_line(record: Record, base: Record, steps: Sequence[int]) -> Series:
    both = zip(_at(record, steps), _at(base, steps), strict=True)
    gaps = [paired(mine["validation"], theirs["validation"]) for mine, theirs in both]
    halves = [gap.half or 0.0 for gap in gaps]
    return Series(record["name"], [gap.mean for gap in gaps], *_look(record), half=halves)


def _shares(record: Record, steps: Sequence[int]) -> list[float]:
    """|mean K| / |K|, mean over layers and seeds."""
    return [
        fmean(x for layer in point["layers"] for x in layer["k_mean"])
        for point in _at(record, steps)
    ]
