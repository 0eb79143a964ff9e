"""What the mechanism predicts, what would refute it, and what the runs say.

The mechanism: row sums of dS that do not vanish push the mean of K, which softmax does not see; its
codes then resolve less of what keys differ in. A prediction compares a run with another one over
the same seeds, by |mean of K| / |K| (as a ratio) or by the loss (in nats), with a 95 % interval,
or by the number of seeds that lost rows, with Fisher's exact test of more (one-sided, 5 %):

| measure | predicted | holds | refuted | else |
|---|---|---|---|---|
| drift, gap | more | the interval lies above none | it lies below the margin | open |
| | no more | it lies below the margin | it lies above the margin | open |
| lost | more | more, by the test | as many or fewer | open |
| | no more | as many or fewer | more, by the test | open |

The comparisons of lost seeds were added when the first four runs were in: losses turned out to be
heavy-tailed, so that an interval of their mean decides little. So was the second explanation, from
what these runs showed: **sharp rows** have a small dS, what a stale delta adds is no smaller there,
and it keeps a layer from coming back. It predicts that K centred loses rows as well; and, written
down before those runs, that where no layer becomes sharp (QK-norm, a rate of 1e-3) none is lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from dmverify.studies.separate.beside import beside, lost, stayed, times, with_half
from dmverify.studies.separate.places import (
    ACT,
    EXACT,
    FAST,
    LATE,
    PUSHED,
    Place,
    at,
    exact,
    of,
    real,
)
from dmverify.studies.separate.table import ASSOCIATED, CENTRED, KEPT, MATCHED, STALE
from dmverify.studies.study import Table
from dmverify.studies.training.read import Record
from dmverify.studies.training.recipe import EXACT as PLAIN
from dmverify.studies.training.statistics import Paired

MARGIN: MappingProxyType[str, float] = MappingProxyType({"drift": math.log(1.25), "gap": 0.05})
"""What is too little to matter: a quarter more of K's mean, 0.05 nats."""
LEVEL = 0.05


@dataclass(frozen=True)
class Prediction:
    """One comparison.

    Attributes:
        claim: In words.
        run: The run.
        than: The one beside it.
        measure: drift, gap, lost or stayed (a layer is sharp at the end).
        more: Whether it is predicted to be more, or no more.
    """

    claim: str
    run: Place
    than: Place
    measure: str
    more: bool


PROJECTED, FROZEN = (of(ACT, STALE.but(act=act)) for act in ("project", "freeze"))
INJECTED = of(ACT, MATCHED.but(act="inject"))
INTO_EXACT = of(ACT, PLAIN.but(act="inject", **KEPT))
CALM, MIDDLE = of(FAST, MATCHED), of(FAST, CENTRED)
REAL_STALE, REAL_MATCHED = (real(delta, **KEPT) for delta in ("stale", "matched"))
REAL_PROJECTED = real("stale", **KEPT, act="project")
TF32, FP32, NORMED, FREE = "usual-tf32", "usual-fp32", "factor-qk-norm", "factor-no-decay"
LINKED = of("factor", ASSOCIATED)

PREDICTIONS: tuple[Prediction, ...] = (
    Prediction("a stale delta pushes K's mean", PUSHED, EXACT, "drift", True),
    Prediction("and training falls behind", PUSHED, EXACT, "gap", True),
    Prediction("and loses rows", PUSHED, EXACT, "lost", True),
    Prediction("not pushed, if dK's mean is taken out", PROJECTED, EXACT, "drift", False),
    Prediction("then it keeps up", PROJECTED, EXACT, "gap", False),
    Prediction("and loses no rows", PROJECTED, EXACT, "lost", False),
    Prediction("so it does if K loses its mean", FROZEN, EXACT, "gap", False),
    Prediction("and loses no rows", FROZEN, EXACT, "lost", False),
    Prediction("stale's column sums alone push", INJECTED, EXACT, "drift", True),
    Prediction("a matched run with them falls behind", INJECTED, EXACT, "gap", True),
    Prediction("and loses rows", INJECTED, EXACT, "lost", True),
    Prediction("they push exact attention too", INTO_EXACT, EXACT, "drift", True),
    Prediction("which has no codes to lose", INTO_EXACT, EXACT, "gap", False),
    Prediction("a matched delta does not push", CALM, EXACT, "drift", False),
    Prediction("and keeps up", CALM, EXACT, "gap", False),
    Prediction("and loses no rows", CALM, EXACT, "lost", False),
    Prediction("sharp rows: layers stay sharp with stale", PUSHED, EXACT, "stayed", True),
    Prediction("they come back with matched", CALM, EXACT, "stayed", False),
    Prediction("and with stale's column sums in it", INJECTED, EXACT, "stayed", False),
    Prediction("centring K does not help: it loses rows", MIDDLE, EXACT, "lost", True),
    Prediction("and layers stay sharp", MIDDLE, EXACT, "stayed", True),
    Prediction("real FP8: layers stay sharp with stale", REAL_STALE, EXACT, "stayed", True),
    Prediction("and come back with matched", REAL_MATCHED, EXACT, "stayed", False),
    Prediction("real FP8: stale pushes more than matched", REAL_STALE, REAL_MATCHED, "drift", True),
    Prediction("and falls behind it", REAL_STALE, REAL_MATCHED, "gap", True),
    Prediction("not if dK's mean is taken out", REAL_PROJECTED, REAL_MATCHED, "gap", False),
    Prediction(
        "5,400 steps: a matched delta keeps up", of(LATE, MATCHED), exact(LATE), "gap", False
    ),
    Prediction("and keeps no layer sharp", of(LATE, MATCHED), exact(LATE), "stayed", False),
    Prediction("a stale one does", of(LATE, STALE), exact(LATE), "stayed", True),
    Prediction(
        "rate 1e-3, TF32: a stale delta pushes K's mean",
        of(TF32, STALE),
        exact(TF32),
        "drift",
        True,
    ),
    Prediction(
        "no layer is sharp, so no rows are lost", of(TF32, STALE), exact(TF32), "lost", False
    ),
    Prediction("and it keeps up", of(TF32, STALE), exact(TF32), "gap", False),
    Prediction(
        "a matched delta does not push there", of(TF32, MATCHED), exact(TF32), "drift", False
    ),
    Prediction("TF32 alone does not push", exact(TF32), exact(FP32), "drift", False),
    Prediction("without it stale pushes as well", of(FP32, STALE), exact(FP32), "drift", True),
    Prediction("loses no rows", of(FP32, STALE), exact(FP32), "lost", False),
    Prediction("and keeps up", of(FP32, STALE), exact(FP32), "gap", False),
    Prediction(
        "QK-norm, rate 4e-3: stale loses no rows", of(NORMED, STALE), exact(NORMED), "lost", False
    ),
    Prediction("and keeps up", of(NORMED, STALE), exact(NORMED), "gap", False),
    Prediction("without weight decay stale loses rows", of(FREE, STALE), exact(FREE), "lost", True),
    Prediction("and matched loses none", of(FREE, MATCHED), exact(FREE), "lost", False),
    Prediction("an associated delta keeps up", LINKED, EXACT, "gap", False),
    Prediction("and loses no rows", LINKED, EXACT, "lost", False),
)


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
    runs = [(one, at(records, one.run), at(records, one.than)) for one in PREDICTIONS]
    return [_judged(one, run, than) for one, run, than in runs if run and than]


def _judged(one: Prediction, run: Record, than: Record) -> dict[str, Any]:
    there = beside(run, than)
    judge = _of_counts if one.measure in COUNTS else _of_interval
    return {
        "claim": one.claim,
        "run": one.run[1],
        "than": one.than[1],
        "measure": one.measure,
        "predicted": "more" if one.more else "no more",
        "seeds": there.gap.seeds,
        "step": there.step,
        **judge(one, run, than),
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


def table_of(rows: Sequence[dict[str, Any]]) -> Table:
    """The predictions with their verdicts."""
    return Table("What the mechanism predicts", COLUMNS, tuple(map(_cells, rows)), NOTE)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    seeds, step = f"{row['seeds']}", f"{row['step']}"
    first = (row["claim"], row["run"], row["than"], WORDS[row["measure"]], row["predicted"])
    return (*first, row["found"], seeds, step, row["verdict"])
