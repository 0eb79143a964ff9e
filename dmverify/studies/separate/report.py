"""What the runs say: paired differences, drift of K, curves, advice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from dmverify.studies.rounding import shown
from dmverify.studies.separate.beside import beside, lost, sharp, stayed, times, with_half
from dmverify.studies.separate.table import TITLES
from dmverify.studies.study import Table
from dmverify.studies.training.read import Record, key_of, largest, last, over_training


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
        "sharp": sharp(record),
        "stayed": stayed(record),
    }
    return row | (_beside(record, base) if base is not None and base is not record else {})


def _beside(record: Record, base: Record) -> dict[str, Any]:
    """Paired with exact attention at the last step that both were looked at."""
    there = beside(record, base)
    found: dict[str, Any] = {"compared_at": there.step, "worst": there.worst}
    found |= {"gap": there.gap.mean, "half": there.gap.half}
    for name in ("drift", "drift_first"):
        drift = getattr(there, name)
        found |= {name: drift.mean, f"{name}_half": drift.half}
    return found


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
    "after cast", "lost", "sharp, stayed",
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
    "median row of a layer. Sharp, stayed: seeds in which the median row of a layer had less than "
    "0.1 nats of entropy at some probe, and at the last one."
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
        "-" if row["sharp"] is None else f"{row['sharp']}, {row['stayed']}",
    )
