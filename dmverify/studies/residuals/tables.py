"""The residual study's tables, from its JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dmverify.studies.rounding import percent, shown
from dmverify.studies.study import Table

Row = dict[str, Any]
Format = Callable[[float | None], str]

# Heading, key, how it is written.
_COLUMNS: tuple[tuple[str, str, Format], ...] = (
    ("residual", "residual", shown),
    ("largest", "residual_max", shown),
    ("after cast", "residual_cast", shown),
    ("column sums", "colsum", shown),
    ("O error", "o_error", percent),
    ("dQ error", "dq_error", percent),
    ("flushed", "flushed", percent),
    ("undefined", "undefined", percent),
)


def tables(data: dict[str, Any]) -> tuple[Table, ...]:
    """All tables in reading order: the article's figures first."""
    return (
        _published(data["published"]),
        *(_main(data["rows"], inputs) for inputs in ("gaussian", "outlier")),
        _variants(data["variants"]),
        _ledger(data["ledger"]),
        _captures(data["captures"]),
    )


def _published(rows: Iterable[Row]) -> Table:
    return Table(
        "Ours beside the article",
        ("figure", "ours", "article", "ratio", "tolerance", ""),
        tuple(
            (
                row["figure"],
                f"{row['ours']:.3g}",
                f"{row['published']:.3g}",
                f"{row['ratio']:.3f}",
                percent(row["tolerance"]),
                "within" if row["within"] else "OUTSIDE",
            )
            for row in rows
        ),
        "Medians over the seeds of this run; the article's seeds are not public.",
    )


def _main(rows: Iterable[Row], inputs: str) -> Table:
    chosen = [row for row in rows if row["inputs"] == inputs]
    return Table(
        f"Delta modes, {inputs} inputs, contract article, nearest cast",
        ("spread, delta", *(heading for heading, _, _ in _COLUMNS), "article"),
        tuple(
            (f"{row['spread']:g}, {row['delta']}", *_cells(row), shown(row["article"]))
            for row in chosen
        ),
        "The last column is the article's figure of the residual before the cast.",
    )


def _variants(rows: Iterable[Row]) -> Table:
    return Table(
        "Other contracts and casts, gaussian inputs",
        ("spread, contract", *(heading for heading, _, _ in _COLUMNS)),
        tuple((f"{row['spread']:g}, {row['contract']}", *_cells(row)) for row in rows),
    )


def _captures(rows: Iterable[Row]) -> Table:
    return Table(
        "Attention of trained models",
        ("capture, contract", *(heading for heading, _, _ in _COLUMNS)),
        tuple((f"{row['inputs']}, {row['contract']}", *_cells(row)) for row in rows),
    )


def _cells(row: Row) -> tuple[str, ...]:
    return tuple(write(row[key]) for _, key, write in _COLUMNS)


def _ledger(rows: Iterable[Row]) -> Table:
    return Table(
        "The residual before the cast: its terms and bound by the exact ledger, one seed",
        ("spread, contract", "median", "largest", "bound", "median |term| / sum |dS|", "margin"),
        tuple(
            (
                f"{row['spread']:g}, {row['contract']}",
                shown(row["residual"]),
                shown(row["residual_max"]),
                shown(row["bound"]),
                ", ".join(f"{name} {shown(x)}" for name, x in row["terms"].items()),
                f"{max(row['margins'].values()):.3g}",
            )
            for row in rows
        ),
        "Bound: the median over rows of the sum of the terms' bounds, divided by sum |dS|. Margin: "
        "the largest |term| / bound of any row and term.",
    )
