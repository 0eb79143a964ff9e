"""``dmverify list coverage``: what a level meets and what it does not."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dmverify.conformance.coverage.count import Coverage, in_words
from dmverify.conformance.coverage.factors import FACTORS
from dmverify.conformance.coverage.summary import EXPLAINED, NOT_COVERED, Summary, summarise
from dmverify.conformance.selection import select_pairs
from dmverify.spec.contracts import BUNDLED, every_mode

SHOWN = 20  # missing pairs, of which there may be hundreds


def summary_of(level: str, *, seed: int = 0) -> Summary:
    """A level as a kernel meets it that serves every delta mode and cast.

    Raises:
        UnknownNameError: If there is no such level.
        InputError: If it has no end.
    """
    return summarise(level, select_pairs(level, every_mode(BUNDLED.base), seed=seed))


def show(summary: Summary, console: Console) -> None:
    """Prints it for people."""
    console.print(
        f"[bold]{summary.level}[/bold]: {summary.cases:,} cases, each under one of "
        f"{summary.contracts} delta modes and casts, {summary.padded_scores / 1e6:,.0f} million "
        "scores (padded to tiles of 64)"
    )
    console.print(f"pairs of levels met:   {_share(summary.pairs)}")
    console.print(f"triples of levels met: {_share(summary.triples)}")
    console.print(escape(EXPLAINED), "\n", style="dim")
    console.print(_factors(summary), "\n")
    console.print(_triangle(summary), "\n")
    missing = [in_words(*one) for one in summary.pairs.missing()]
    for words in missing[:SHOWN]:
        console.print(f"[red]missing pair[/red]: {escape(words)}")
    if len(missing) > SHOWN:
        console.print(f"and {len(missing) - SHOWN} more pairs (--json has all)")
    console.print(_largest(summary), "\n")
    console.print("[bold]not covered[/bold]")
    for words in (*_beyond(summary), *NOT_COVERED):
        console.print(f"- {escape(words)}")


def _share(coverage: Coverage, *factors: int) -> str:
    met, total = coverage.of(*factors)
    return f"{met:,} of {total:,}" + (
        "" if met == total else f" ({_percent(coverage, *factors)} %)"
    )


def _percent(coverage: Coverage, *factors: int) -> str:
    """Rounded down, so that 100 means all."""
    met, total = coverage.of(*factors)
    return str(100 * met // total) if total else "-"


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=None, pad_edge=False)


def _factors(summary: Summary) -> Table:
    table = _table("factors: their levels, and how many cases have each")
    for name, right in (("", True), ("factor", False), ("levels (cases)", False)):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    table.add_column("pairs", justify="right", no_wrap=True)
    table.add_column("triples", justify="right", no_wrap=True)
    for f, factor in enumerate(FACTORS):
        counts = zip(factor.levels, summary.cases_by_level[f], strict=True)
        words = "  ".join(f"{level} [dim]({n})[/dim]" for level, n in counts)
        shares = (f"{_percent(one, f)} %" for one in (summary.pairs, summary.triples))
        table.add_row(str(f + 1), factor.name, words, *shares)
    return table


def _triangle(summary: Summary) -> Table:
    table = _table("triples that contain two factors, percent met")
    table.add_column("", justify="right")
    table.add_column("factor", no_wrap=True)
    for f in range(len(FACTORS) - 1):
        table.add_column(str(f + 1), justify="right", no_wrap=True)
    for f, factor in enumerate(FACTORS[1:], 1):
        cells = (_percent(summary.triples, other, f) for other in range(f))
        table.add_row(str(f + 1), factor.name, *cells)
    return table


def _largest(summary: Summary) -> Table:
    table = _table("largest sizes")
    table.add_column("size", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("case", overflow="fold")
    for one in summary.largest:
        table.add_row(one.name, f"{one.size:,}", escape(one.case))
    return table


def _beyond(summary: Summary) -> tuple[str, ...]:
    """What is larger than the largest case."""
    sizes = {one.name: one.size for one in summary.largest}
    return (
        f"lengths beyond {sizes['queries']:,} queries and {sizes['keys']:,} keys",
        f"more than {sizes['batch x query heads']:,} pairs of batch and query head",
    )
