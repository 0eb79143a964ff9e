"""Which remedy suffices, for how long, on simulated and on real FP8."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dmverify.studies.separate.beside import beside, lost, times, with_half
from dmverify.studies.separate.places import FAST, FREE, LATE, Place, at, of, real
from dmverify.studies.separate.predictions import LEVEL, fisher, verdict
from dmverify.studies.separate.report import base_of
from dmverify.studies.separate.table import (
    ASSOCIATED,
    CENTRED,
    CODES,
    CONSISTENT,
    KEPT,
    MATCHED,
    STALE,
)
from dmverify.studies.study import Table
from dmverify.studies.training.read import Record
from dmverify.studies.training.statistics import Paired

SIMULATED, REAL = "simulated", "kernel"
REMEDIES: tuple[tuple[str, str, tuple[Place, ...]], ...] = (
    ("none", SIMULATED, (of(FAST, STALE), of(LATE, STALE), of(FREE, STALE))),
    ("consistent delta", SIMULATED, (of(FAST, CONSISTENT), of(FREE, CONSISTENT))),
    ("normaliser from codes", SIMULATED, (of(FAST, CODES), of(FREE, CODES))),
    ("K centred", SIMULATED, (of(FAST, CENTRED), of(LATE, CENTRED), of(FREE, CENTRED))),
    ("matched delta", SIMULATED, (of(FAST, MATCHED), of(LATE, MATCHED), of(FREE, MATCHED))),
    ("associated delta", SIMULATED, (of("factor", ASSOCIATED), of(FREE, ASSOCIATED))),
    ("normaliser from codes", REAL, (real("stale", **KEPT), real("stale", FREE, **KEPT))),
    ("that, and K centred", REAL, (real("stale"), real("stale", LATE), real("stale", FREE))),
    ("that, and matched delta", REAL, (real("matched", **KEPT), real("matched", FREE, **KEPT))),
    ("all three", REAL, (real("matched"), real("matched", LATE))),
    ("QK-norm", SIMULATED, (of("factor-qk-norm", STALE),)),
    ("rate 1e-3", SIMULATED, (of("usual-tf32", STALE), of("usual-fp32", STALE))),
)
"""What is changed about stale FP8 attention that keeps K as it is; where; its runs."""


def rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Every run of every remedy beside exact attention on the same model."""
    return list(_rows(records))


def _rows(records: Sequence[Record]) -> Iterator[dict[str, Any]]:
    for remedy, where, places in REMEDIES:
        for place in places:
            run = at(records, place)
            base = base_of(records, run) if run else None
            if run and base:
                yield {"remedy": remedy, "where": where} | _row(run, base)


def _row(run: Record, base: Record) -> dict[str, Any]:
    there, gone, usual = beside(run, base), lost(run), lost(base) or 0
    whole, said = run["done"] and base["done"], suffices(there.gap, gone, usual)
    return {
        "decay": run["setting"]["decay"],
        "step": there.step,
        "seeds": there.gap.seeds,
        "lost": gone,
        "lost_exact": usual,
        "gap": there.gap.mean,
        "half": there.gap.half,
        "worst": there.worst,
        "drift": there.drift.mean,
        "drift_half": there.drift.half,
        "suffices": said if whole or said == "no" else "open",
    }


def suffices(gap: Paired, gone: int | None, usual: int) -> str:
    """yes, no or open, as the table's note says.

    Args:
        gap: Gap of the loss, beside exact attention.
        gone: Seeds that lost rows; None where that cannot be seen.
        usual: Seeds that lost rows with exact attention.
    """
    if gone is not None and gone > usual:
        sure = not usual or fisher(gone, gap.seeds, usual, gap.seeds) < LEVEL
        return "no" if sure or verdict(gap, "gap", False) == "refuted" else "open"
    return {"holds": "yes", "refuted": "no"}.get(verdict(gap, "gap", False), "open")


COLUMNS = (
    "remedy", "FP8", "decay", "step", "seeds", "mean of K: times exact's", "loss minus exact",
    "worst seed", "lost, with exact", "suffices",
)  # fmt: skip
NOTE = (
    "Stale FP8 attention with K as it is and one thing changed, beside exact attention, seed by "
    "seed; rate 4e-3 but for the last rows. It suffices if no more seeds lost rows than with exact "
    "attention and the interval of the loss lies below 0.05 nats. It does not if the interval lies "
    "above, or a seed lost rows where exact attention lost none, or more by Fisher's test. Else, "
    "and for a run that was cut before, it is open. The kernel shows no dS: none of its seeds can "
    "be called lost."
)


def table_of(found: Sequence[dict[str, Any]]) -> Table:
    """What suffices, for how long."""
    return Table("What suffices, for how long", COLUMNS, tuple(map(_cells, found)), NOTE)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["remedy"],
        row["where"],
        f"{row['decay']:g}",
        f"{row['step']}",
        f"{row['seeds']}",
        times(row["drift"], row["drift_half"]),
        with_half(row["gap"], row["half"]),
        f"{row['worst']:+.3f}",
        "-" if row["lost"] is None else f"{row['lost']}, {row['lost_exact']}",
        row["suffices"],
    )
