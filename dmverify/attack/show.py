"""What an attack found, as JSON values and for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from rich.console import Console
from rich.table import Table

from dmverify.attack.objective import Distance
from dmverify.attack.run import Result
from dmverify.attack.search import spread

COLUMNS = ("kernel", "output", "error", "plain relative error", "floor's share")


def as_plain(result: Result) -> dict[str, Any]:
    """The result as JSON values."""
    small, explained = result.small, result.explanation
    low, middle, high = spread([attempt.best.value for attempt in result.attempts])
    estimate = None
    if explained is not None:
        terms = [asdict(term) for term in explained.estimate.terms]
        share, shares = explained.estimate.share, sorted(result.shares)
        estimate = {"share": share, "shares": shares, "terms": terms}
    return {
        "value": result.best.best.value,
        "seeds": {"smallest": low, "median": middle, "largest": high},
        "drawn": result.drawn,
        "engines": result.best.gains,
        "evaluations": sum(attempt.evaluations for attempt in result.attempts),
        "distances": plain_distances(result.distances),
        "first_order": estimate,
        "smallest": {
            "queries": small.problem.queries,
            "keys": small.problem.keys,
            "nonzeros": small.nonzeros,
            "value": small.value,
        },
        "words": [] if explained is None else list(explained.words),
    }


def plain_distances(found: Mapping[str, Distance]) -> dict[str, dict[str, float | None]]:
    """Value, plain relative error and the floor's share, by output; null where not finite."""
    rows = {}
    for name, one in found.items():
        numbers = {"value": one.value, "plain": one.plain, "floor": one.floor}
        values = {key: float(x[0]) for key, x in numbers.items()}
        rows[name] = {key: x if isfinite(x) else None for key, x in values.items()}
    return rows


def show(found: Mapping[str, Any], out: Console) -> None:
    """A few lines and a table on the console."""
    seeds, small = found["seeds"], found["smallest"]
    lines = [
        f"worst {found['value']:.4g} in {found['evaluations']} evaluations; seeds "
        f"{seeds['smallest']:.4g} to {seeds['largest']:.4g}, median {seeds['median']:.4g}; "
        f"drawing alone {found['drawn']:.4g}",
        "engines: " + ", ".join(f"{n} {x:+.3g}" for n, x in found["engines"].items() if x),
    ]
    _say(lines, out)
    out.print(_table({"attacked": found["distances"], **found["on"]}))
    lines = [
        f"smallest: {small['queries']} queries, {small['keys']} keys, {small['nonzeros']} nonzeros "
        f"keep {small['value']:.4g}",
        *found["words"],
    ]
    if found["first_order"]:
        share, shares = (found["first_order"][name] for name in ("share", "shares"))
        lines.append(
            f"estimate of the worst case along this error, first order: {share:.0%} of it; "
            f"seeds {shares[0]:.0%} to {shares[-1]:.0%}"
        )
    if found["file"]:
        lines.append(f"written to {found['file']}")
    _say(lines, out)


def show_corpus(rows: Sequence[Mapping[str, Any]], out: Console) -> None:
    """How a kernel does on a corpus."""
    table = Table(box=None, pad_edge=False)
    for head in ("input", "output", "against", "found for", "there", "here"):
        table.add_column(head, justify="right" if head in ("there", "here") else "left")
    for row in rows:
        here = "-" if row["here"] is None else f"{row['here']:.3g}"
        words = (row[head] for head in ("input", "output", "against", "found for"))
        table.add_row(*map(str, words), f"{row['there']:.3g}", here)
    out.print(table)
    _say(sorted({str(row["refused"]) for row in rows if row["refused"]}), out)


def _say(lines: list[str], out: Console) -> None:
    for line in lines:
        out.print(line, soft_wrap=True, markup=False)


def _table(kernels: Mapping[str, Mapping[str, Mapping[str, float | None]]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for head in COLUMNS:
        table.add_column(head, justify="left" if head in COLUMNS[:2] else "right")
    for kernel, rows in kernels.items():
        for output, row in rows.items():
            numbers = ("-" if x is None else f"{x:.3g}" for x in row.values())
            table.add_row(kernel, output, *numbers)
    return table
