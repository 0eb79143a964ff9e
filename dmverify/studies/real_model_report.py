"""The tables and the picture of ``study real-model``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dmverify.studies.plot import Panel, Plot, Series
from dmverify.studies.rounding import percent, shown
from dmverify.studies.study import Table

Row = dict[str, Any]
Pick = Callable[[Row], Any]


def tables(rows: Sequence[Row], shares: Sequence[Row]) -> tuple[Table, ...]:
    """Over heads, layer by layer, and what the row sums are made of."""
    return (_summary(rows), _ratios(rows), _shares(shares))


def _grouped(rows: Sequence[Row], pick: Pick) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(pick(row), []).append(row)
    return found


def _spread(rows: Sequence[Row], name: str) -> tuple[float, float, float]:
    values = [row[name] for row in rows if row[name] is not None]
    low, middle, high = np.quantile(values, (0.1, 0.5, 0.9)) if values else (np.nan,) * 3
    return float(low), float(middle), float(high)


def _summary(rows: Sequence[Row]) -> Table:
    cells = []
    for contract, mine in _grouped(rows, lambda row: row["contract"]).items():
        both = (_spread(mine, "residual"), _spread(mine, "residual_cast"))
        cells.append((contract, str(len(mine)), *(f"{x:.1e}" for part in both for x in part)))
    columns = ("contract", "heads", "10 %", "median", "90 %", "after cast: 10 %", "median", "90 %")
    return Table("Residuals over heads", columns, tuple(cells), "Quantiles over all heads.")


def _ratios(rows: Sequence[Row]) -> Table:
    """Stale over matched after the cast, a capture."""
    cells = []
    for capture, mine in _grouped(rows, lambda row: row["capture"]).items():
        by = {(r["contract"], r["head"]): r for r in mine}
        heads = sorted({r["head"] for r in mine})
        pairs = [(by["article:delta=stale", h], by["article", h]) for h in heads]
        ratios = [
            a["residual_cast"] / b["residual_cast"]
            for a, b in pairs
            if a["residual_cast"] and b["residual_cast"]
        ]
        sharp = [a["sharpness"] for a, _ in pairs]
        cells.append(
            (
                capture,
                str(len(heads)),
                f"{min(sharp):.2f} to {max(sharp):.2f}",
                shown(float(np.median([a["residual"] for a, _ in pairs]))),
                f"{min(ratios):.1f} to {max(ratios):.1f}" if ratios else "-",
            )
        )
    columns = ("capture", "heads", "sharpness", "stale residual", "stale / matched after cast")
    return Table("Layer by layer, contract article", columns, tuple(cells))


def _shares(shares: Sequence[Row]) -> Table:
    names = sorted({name for row in shares for name in row["shares"]})
    return Table(
        "What stale row sums are made of",
        ("capture, contract", *names, "exact"),
        tuple(
            (
                f"{row['capture']}, {row['contract']}",
                *(percent(row["shares"].get(name)) for name in names),
                "yes" if row["closes"] else "NO",
            )
            for row in shares
        ),
        "prob: rounding of P; grad: of dO; out: BF16 store of O; exact: the terms sum to the row "
        "sums without any difference.",
    )


def plots(rows: Sequence[Row]) -> tuple[Plot, ...]:
    """Residual after the cast by sharpness, a mark a head."""
    mine = [row for row in rows if row["base"] == "article" and row["ds_cast"] == "nearest"]
    heads = sorted(
        {(row["sharpness"], row["capture"], row["head"]) for row in mine if row["sharpness"] > 0}
    )
    by = {(row["delta"], row["capture"], row["head"]): row for row in mine}
    panels = tuple(
        Panel(
            title,
            "|row sum of dS| / sum of |dS|",
            tuple(
                Series(d, [by[d, capture, head][name] for _, capture, head in heads], d, "dots")
                for d in ("stale", "consistent", "matched")
                if any((d, capture, head) in by for _, capture, head in heads)
            ),
        )
        for title, name in (("before the cast", "residual"), ("after the cast", "residual_cast"))
    )
    caption = "Residual of every captured head by its sharpness, contract article."
    sharp = [sharpness for sharpness, _, _ in heads]
    label = "sharpness: median of a row's largest probability"
    return (Plot("sharpness", caption, label, sharp, panels, x_scale="linear"),)
