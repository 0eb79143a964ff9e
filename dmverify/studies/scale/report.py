"""The tables and pictures of ``study scale``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dmverify.studies.plot import Panel, Plot, Series
from dmverify.studies.rounding import percent, shown
from dmverify.studies.scale.grid import LABELS
from dmverify.studies.study import Table

Row = dict[str, Any]
DRAWN = ("stale", "consistent", "matched", "shifted", "associated")
MEASURES = ("residual", "residual_max", "residual_cast", "o_error", "dq_error", "dk_error")


def tables(rows: Sequence[Row], card: Sequence[Row]) -> tuple[Table, ...]:
    """Recommendations first, then one table an axis, then the card's."""
    axes = list(dict.fromkeys(row["axis"] for row in rows))
    made = [
        _trust(rows, "Where the median row may be trusted", "residual"),
        _trust(rows, "Where every row may be trusted", "residual_max"),
    ]
    made += [_axis(axis, [row for row in rows if row["axis"] == axis]) for axis in axes]
    return (*made, *([_card(card)] if card else []))


def trusted_up_to(
    rows: Sequence[Row], axis: str, variant: str, measure: str = "residual"
) -> float | None:
    """The largest place of an axis up to which a variant stays below the cast's own residual.

    Args:
        rows: Rows of the study.
        axis: Which one.
        variant: Which one.
        measure: ``residual``, the median row's, or ``residual_max``, the worst row's.
    """
    mine = [row for row in rows if row["axis"] == axis]
    by = {(row["variant"], row["x"]): row for row in mine}
    reached = None
    for x in sorted({row["x"] for row in mine}):
        ours, cast = by[variant, x][measure], by["shifted", x]["residual_cast"]
        if ours is None or cast is None or ours >= cast:
            return reached
        reached = x
    return reached


def _trust(rows: Sequence[Row], title: str, measure: str) -> Table:
    axes = list(dict.fromkeys(row["axis"] for row in rows))
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    ends = {axis: max(row["x"] for row in rows if row["axis"] == axis) for axis in axes}

    def cell(variant: str, axis: str) -> str:
        reached = trusted_up_to(rows, axis, variant, measure)
        if reached is None:
            return "nowhere"
        return f"all, to {reached:g}" if reached == ends[axis] else f"to {reached:g}"

    return Table(
        title,
        ("variant", *(LABELS[axis] for axis in axes)),
        tuple((variant, *(cell(variant, axis) for axis in axes)) for variant in variants),
        "The residual before the cast is below what the nearest cast of dS leaves in the median "
        "row when nothing else leaves anything (that of shifted after its cast).",
    )


def _axis(axis: str, rows: Sequence[Row]) -> Table:
    return Table(
        f"Along {LABELS[axis]}",
        (f"{axis}, variant", "residual", "largest", "after cast", "bound", "O", "dQ", "dK"),
        tuple(
            (
                f"{row['x']:g}, {row['variant']}",
                *(shown(row[n]) for n in ("residual", "residual_max", "residual_cast", "bound")),
                *(percent(row[n]) for n in ("o_error", "dq_error", "dk_error")),
            )
            for row in rows
        ),
    )


def _card(card: Sequence[Row]) -> Table:
    return Table(
        "Real FP8: the bundled kernel on an H200",
        ("keys, V, delta", "O error", "bias of O", "dQ error", "column sums of dK"),
        tuple(
            (
                f"{row['keys']}, {row['values']}, {row['delta']}",
                percent(row["o_error"]),
                f"{row['o_bias']:+.1e}",
                percent(row["dq_error"]),
                shown(row["column"]),
            )
            for row in card
        ),
        "64 rows spread over all; head dim 128, spread 1, one head.",
    )


def plots(rows: Sequence[Row], card: Sequence[Row]) -> tuple[Plot, ...]:
    """One picture an axis: residual before and after the cast, with bounds."""
    axes = list(dict.fromkeys(row["axis"] for row in rows))
    return tuple(_plot(axis, [row for row in rows if row["axis"] == axis]) for axis in axes)


def _plot(axis: str, rows: Sequence[Row]) -> Plot:
    xs = sorted({row["x"] for row in rows})
    by = {(row["variant"], row["x"]): row for row in rows}

    def line(variant: str, name: str, look: str) -> Series:
        label = f"{variant}: bound" if look == "bound" else variant
        return Series(label, [by[variant, x][name] for x in xs], variant, look)

    before = [line(variant, "residual", "measured") for variant in DRAWN]
    before += [line(variant, "bound", "bound") for variant in ("stale", "matched", "shifted")]
    after = [line(variant, "residual_cast", "measured") for variant in DRAWN]
    label = "|row sum of dS| / sum of |dS|"
    linear = 0.0 in xs
    return Plot(
        f"along-{axis.replace('_', '-')}",
        "Medians over rows and seeds. Dashed: closed forms that hold for any input with the norms "
        "of these, over the median of sum |dS|.",
        LABELS[axis],
        [f"{x:g}" for x in xs] if linear else xs,
        (
            Panel("before the cast", label, tuple(before), top=1e3),
            Panel("after the cast", label, tuple(after)),
        ),
    )
