"""What the runs say of each prediction, by a rule.

A prediction (``claims``) compares a run with another one over the same seeds, by |mean of K| / |K|
(as a ratio) or by the loss (in nats), with a 95 % interval, or by the number of seeds that lost
rows, with Fisher's exact test of more (one-sided, 5 %):

| measure | predicted | holds | refuted | else |
|---|---|---|---|---|
| drift, gap | more | the interval lies above none | it lies below the margin | open |
| | no more | it lies below the margin | it lies above the margin | open |
| lost, stayed | more | more, by the test | as many or fewer | open |
| | no more | as many or fewer | more, by the test | open |

A run that was cut before its last step leaves a prediction open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from dmverify.studies.separate.beside import beside, lost, stayed, times, with_half
from dmverify.studies.separate.claims import CLAIMS, Prediction
from dmverify.studies.separate.places import at
from dmverify.studies.study import Table
from dmverify.studies.training.read import Record
from dmverify.studies.training.statistics import Paired

MARGIN: MappingProxyType[str, float] = MappingProxyType({"drift": math.log(1.25), "gap": 0.05})
"""What is too little to matter: a quarter more of K's mean, 0.05 nats."""
LEVEL = 0.05


def verdict(found: Paired, measure: str, more: bool) -> str:
    """holds, refuted or open, by the table above; open for a single seed."""
    if found.half is None:
        return "open"
    low, high = found.mean - found.half, found.mean + found.half
    margin = MARGIN[measure]
    if more:
        return "holds" if low > 0 else "refuted" if high < margin else "open"
    return "holds" if high < margin else "refuted" if low > margin else "open"


def judged(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Every prediction whose runs there are."""
    return [
        {"part": part} | _judged(one, run, than)
        for part, predictions in CLAIMS.items()
        for one in predictions
        if (run := at(records, one.run)) and (than := at(records, one.than))
    ]


def _judged(one: Prediction, run: Record, than: Record) -> dict[str, Any]:
    there = beside(run, than)
    judge = _of_counts if one.measure in COUNTS else _of_interval
    cut = {} if run["done"] and than["done"] else {"verdict": "open"}
    return {
        "claim": one.claim,
        "run": one.run[1],
        "than": one.than[1],
        "measure": one.measure,
        "predicted": "more" if one.more else "no more",
        "seeds": there.gap.seeds,
        "step": there.step,
        **judge(one, run, than),
        **cut,
    }


def _of_interval(one: Prediction, run: Record, than: Record) -> dict[str, Any]:
    value: Paired = getattr(beside(run, than), one.measure)
    shown = SHOWN[one.measure](value.mean, value.half)
    return {"found": shown, "verdict": verdict(value, one.measure, one.more)}


def _of_counts(one: Prediction, run: Record, than: Record) -> dict[str, Any]:
    mine, theirs = (COUNTS[one.measure](record) for record in (run, than))
    if mine is None or theirs is None:
        return {"found": "not seen", "verdict": "open"}
    chance = fisher(mine, len(run["seeds"]), theirs, len(than["seeds"]))
    found = f"{mine} of {len(run['seeds'])}, {theirs} of {len(than['seeds'])}: p = {chance:.2g}"
    return {"found": found, "verdict": counted(mine, theirs, chance, one.more)}


def fisher(a: int, n: int, b: int, m: int) -> float:
    """The chance of at least a of the a + b lost seeds among n of n + m, if all are alike."""
    total = math.comb(n + m, a + b)
    ways = (math.comb(n, k) * math.comb(m, a + b - k) for k in range(a, min(n, a + b) + 1))
    return sum(ways) / total


def counted(mine: int, theirs: int, chance: float, more: bool) -> str:
    """holds, refuted or open, by the table above; the counts are of as many seeds."""
    if mine <= theirs:
        return "refuted" if more else "holds"
    if chance < LEVEL:
        return "holds" if more else "refuted"
    return "open"


COLUMNS = ("claim", "run", "beside", "measure", "predicted", "found", "seeds", "step", "verdict")
SHOWN = MappingProxyType({"drift": times, "gap": with_half})
COUNTS = MappingProxyType({"lost": lost, "stayed": stayed})
WORDS = MappingProxyType(
    {
        "drift": "mean of K",
        "gap": "loss",
        "lost": "seeds that lost rows",
        "stayed": "seeds sharp at the end",
    }
)
NOTE = (
    "95 % intervals over paired seeds at the last common step; of the mean of K the ratio, of the "
    "loss nats. 'More' is refuted by an interval below the margin, 'no more' by one above it; the "
    "margin is a ratio of 1.25, or 0.05 nats. Of seeds the counts of both runs, and Fisher's p "
    "(one-sided)."
)


def tables_of(rows: Sequence[dict[str, Any]]) -> tuple[Table, ...]:
    """The predictions with their verdicts, a table a part."""
    parts = ((part, [row for row in rows if row["part"] == part]) for part in CLAIMS)
    return tuple(
        Table(f"Predictions: {part}", COLUMNS, tuple(map(_cells, mine)), NOTE)
        for part, mine in parts
        if mine
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    seeds, step = f"{row['seeds']}", f"{row['step']}"
    first = (row["claim"], row["run"], row["than"], WORDS[row["measure"]], row["predicted"])
    return (*first, row["found"], seeds, step, row["verdict"])
