"""Which remedy suffices, for how long, on simulated and on real FP8."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dmverify.studies.separate.beside import beside, lost, times, with_half
from dmverify.studies.separate.places import FAST, LATE, Place, at, of, real
from dmverify.studies.separate.predictions import verdict
from dmverify.studies.separate.table import CENTRED, CODES, CONSISTENT, KEPT, MATCHED, STALE
from dmverify.studies.study import Table
from dmverify.studies.training.read import Record
from dmverify.studies.training.statistics import Paired

SIMULATED, REAL = "simulated", "kernel"
REMEDIES: tuple[tuple[str, str, tuple[Place, ...]], ...] = (
    ("none", SIMULATED, (of(FAST, STALE), of(LATE, STALE))),
    ("consistent delta", SIMULATED, (of(FAST, CONSISTENT),)),
    ("normaliser from codes", SIMULATED, (of(FAST, CODES),)),
    ("K centred", SIMULATED, (of(FAST, CENTRED), of(LATE, CENTRED))),
    ("matched delta", SIMULATED, (of(FAST, MATCHED), of(LATE, MATCHED))),
    ("normaliser from codes", REAL, (real("stale", **KEPT),)),
    ("that, and K centred", REAL, (real("stale"), real("stale", LATE))),
    ("that, and matched delta", REAL, (real("matched", **KEPT),)),
    ("all three", REAL, (real("matched"),)),
)
"""What is changed about stale FP8 attention that keeps K as it is; where; its runs."""


def rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Every run of every remedy beside exact attention on the same model."""
    return list(_rows(records))


def _rows(records: Sequence[Record]) -> Iterator[dict[str, Any]]:
    for remedy, where, places in REMEDIES:
        for place in places:
            run = at(records, place)
            base = at(records, (LATE if place[0] == LATE else FAST, "exact"))
            if run and base:
                yield {"remedy": remedy, "where": where} | _row(run, base)


def _row(run: Record, base: Record) -> dict[str, Any]:
    there, gone = beside(run, base), lost(run)
    return {
        "step": there.step,
        "seeds": there.gap.seeds,
        "lost": gone,
        "gap": there.gap.mean,
        "half": there.gap.half,
        "worst": there.worst,
        "drift": there.drift.mean,
        "drift_half": there.drift.half,
        "suffices": suffices(there.gap, gone),
    }


def suffices(gap: Paired, gone: int | None) -> str:
    """yes: no seed was lost and the loss is no more; no: a seed was, or it is more; else open."""
    if gone:
        return "no"
    return {"holds": "yes", "refuted": "no"}.get(verdict(gap, "gap", False), "open")


COLUMNS = (
    "remedy", "FP8", "step", "seeds", "mean of K: times exact's", "loss minus exact", "worst seed",
    "lost", "suffices",
)  # fmt: skip
NOTE = (
    "Stale FP8 attention with K as it is and one thing changed, beside exact attention, seed by "
    "seed. It suffices if no seed was lost and the interval of the loss lies below 0.05 nats; open "
    "if that reaches beyond. The kernel shows no dS, so none of its seeds can be called lost."
)


def table_of(found: Sequence[dict[str, Any]]) -> Table:
    """What suffices, for how long."""
    return Table("What suffices, for how long", COLUMNS, tuple(map(_cells, found)), NOTE)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["remedy"],
        row["where"],
        f"{row['step']}",
        f"{row['seeds']}",
        times(row["drift"], row["drift_half"]),
        with_half(row["gap"], row["half"]),
        f"{row['worst']:+.3f}",
        "-" if row["lost"] is None else f"{row['lost']}",
        row["suffices"],
    )
