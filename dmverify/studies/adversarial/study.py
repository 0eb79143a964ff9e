"""``study adversarial``: the worst dQ of every delta mode and cast under the same constraints."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from dmverify.spec.contracts import DELTAS, DS_CASTS
from dmverify.studies.adversarial.cells import (
    BOXES,
    CAPTURES,
    EVALUATIONS,
    MODES,
    keep,
    kept,
    list_cells,
    measure,
    taken,
)
from dmverify.studies.adversarial.named import NAME, SUMMARY
from dmverify.studies.plot import Plot
from dmverify.studies.study import Progress, StudyResult, Table, checked_seeds, whole

Row = dict[str, Any]
SEEDS = (0, 1, 2, 3, 4)
QUICK_SHARE, QUICK_LENGTHS = 0.02, (32,)
METHOD = (
    "The float32 simulation of the contract article in four delta modes and both casts of dS, one "
    "head, head_dim 32, no mask; renormalized and shifted leave what matched leaves, but for last "
    "bits (last table). Each cell is attacked from five seeds; the error of dQ is over max(norm of "
    "dQ, 5 % of the norm of its sums with magnitudes for numbers), against attention on the "
    "inputs, or on the operands that the contract's quantisation leaves of them.",
    "Free: elements to 4, logits to 6, row sizes 0.5 to 1.5, means to 3 deviations. From 64 tokens "
    "on an attack starts from the worst input of 32, its tokens repeated, and what it draws. The "
    "number of evaluations falls with the length, from 16,000 at 32 tokens to 60 at 1,024, so that "
    "long ones show little more than their start: a worst case found at a length says what can "
    "happen, not that nothing worse can.",
    "Near: every element within 1, 3 or 10 % of a capture of a trained model, its first head and "
    "64 tokens, 5,000 evaluations.",
)


def run(
    *,
    seeds: Sequence[int] | None = None,
    quick: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Attacks every cell that has no file yet.

    With ``out``, finds are kept in its folder ``adversarial-cells``, and any number of processes
    may run the study on the same folder at once; the last one to end has all of them.

    Args:
        seeds: Seeds of the attacks; 0 to 4 unless given.
        quick: The shortest length alone, a fiftieth of the evaluations, one seed.
        out: A directory for JSON, page and cells, or None.
        progress: Told after each cell.

    Raises:
        InputError: As ``checked_seeds`` does.
    """
    chosen = checked_seeds(seeds, SEEDS[:1] if quick else SEEDS)
    lengths = QUICK_LENGTHS if quick else tuple(EVALUATIONS)
    cells = list_cells(chosen, lengths, QUICK_SHARE if quick else 1.0)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if out is None else out / f"{NAME}-cells"
        for cell in taken(cells, folder):
            found = measure(cell, folder)
            keep(folder, cell, found)
            if progress is not None:
                progress(f"{cell.name}: {found['worst']:.3g}")
        rows = kept(folder, cells)
    result = result_of(rows, len(cells), lengths).asked(seeds=seeds, quick=quick)
    if out is not None:
        result.write(out)
    return result


def result_of(rows: list[Row], due: int, lengths: Sequence[int]) -> StudyResult:
    """Tables of what cells found; ``due`` is how many there should be."""
    plots: tuple[Plot, ...] = ()
    note = "" if len(rows) == due else f"{len(rows)} of {due} attacks have run."
    tables = (
        _table("against the operands, free", rows, "operands", _free(lengths), note),
        _table("against the inputs, free", rows, "inputs", _free(lengths), note),
        _table("against the operands, near captures", rows, "operands", _boxes(), note),
        _table("against the inputs, near captures", rows, "inputs", _boxes(), note),
        _others(rows, note),
    )
    data = {"due": due, "cells": rows}
    return StudyResult(NAME, SUMMARY, METHOD, data, tables, plots, command=whole(NAME))


Column = tuple[str, Callable[[Row], bool]]


def _free(lengths: Sequence[int]) -> list[Column]:
    return [(f"N = {n}", partial(_is, place=n)) for n in lengths]


def _boxes() -> list[Column]:
    return [
        (f"{capture}, {within:.0%}", partial(_is, place=capture, within=within))
        for capture, within in product(CAPTURES, BOXES)
    ]


def _is(row: Row, **fields: object) -> bool:
    return all(row[name] == value for name, value in fields.items())


def _table(
    title: str, rows: Iterable[Row], against: str, columns: list[Column], note: str
) -> Table:
    some = [row for row in rows if row["against"] == against]
    lines = []
    for delta, ds_cast in product(MODES, DS_CASTS):
        mine = [row for row in some if (row["delta"], row["ds_cast"]) == (delta, ds_cast)]
        cells = (_cell([r["worst"] for r in mine if picks(r)]) for _, picks in columns)
        lines.append((delta, ds_cast, *cells))
    first = _drawn(some, columns)
    heads = ("delta", "cast", *(name for name, _ in columns))
    return Table(f"Worst dQ {title}: median of the seeds (range)", heads, (first, *lines), note)


def _drawn(rows: list[Row], columns: list[Column]) -> tuple[str, ...]:
    """What there is without a search: the largest of what drawing found, or the capture itself."""
    found = []
    for _, picks in columns:
        before = [row["as it is"] or row["drawn"] for row in rows if picks(row)]
        found.append(f"{max(before):.3g}" if before else "")
    return ("as it is, or drawn", "largest", *found)


def _cell(values: list[float]) -> str:
    if not values:
        return ""
    low, high = min(values), max(values)
    spread = f" ({low:.2g} to {high:.2g})" if len(values) > 1 else ""
    return f"{median(values):.3g}{spread}"


def _others(rows: list[Row], note: str) -> Table:
    """What every mode does on the worst input of each, 32 tokens, against the operands."""
    names = [f"{delta} {ds_cast}" for delta, ds_cast in product(DELTAS, DS_CASTS)]
    lines = []
    for name in (f"{delta} {ds_cast}" for delta, ds_cast in product(MODES, DS_CASTS)):
        mine = [
            row["others"]
            for row in rows
            if row["place"] == min(EVALUATIONS) and row["against"] == "operands"
            if f"{row['delta']} {row['ds_cast']}" == name
        ]
        cells = (f"{median(found[n] for found in mine):.2g}" if mine else "" for n in names)
        lines.append((name, *cells))
    title = "The worst input of a row's mode, asked of every mode: error of dQ, median of the seeds"
    return Table(title, ("worst input of", *names), tuple(lines), note)
