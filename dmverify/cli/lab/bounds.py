"""Searches for a violated bound; each exits with 1 if it has found one."""

from __future__ import annotations

from pathlib import Path

import click

from dmverify.cli.lab.options import (
    out_option,
    read_records,
    say,
    search_options,
    seed_option,
    workers_option,
    write_record,
)
from dmverify.shards import Shard
from dmverify.studies.bounds import extremes as edge
from dmverify.studies.bounds import mathematics as text
from dmverify.studies.bounds import refuter as climbing
from dmverify.studies.bounds import soundness as ordinary


@click.command()
@click.option(
    "--cases", default=1000, show_default=True, help="Cases of the whole search, over all shards."
)
@search_options
@click.pass_context
def extremes(
    ctx: click.Context, /, cases: int, merge: tuple[Path, ...], out: Path, **plan: int | Shard
) -> None:
    """Run kernels on inputs that test premises; no bound may be passed, nothing may stop."""
    record = edge.merge(read_records(merge)) if merge else edge.search(cases, **plan)  # type: ignore[arg-type]
    write_record(out, record)
    bad, crashed = record["violations"], record["crashes"]
    say(f"{record['cases']} cases, {len(bad)} violations, {len(crashed)} crashes")
    ctx.exit(1 if bad or crashed else 0)


@click.command()
@click.option("--per", default=100, show_default=True, help="Cases of each family and mode.")
@click.option(
    "--families",
    help="Names of families, separated by commas; every one that is swept unless given.",
)
@search_options
@click.pass_context
def soundness(
    ctx: click.Context,
    /,
    families: str | None,
    merge: tuple[Path, ...],
    out: Path,
    **plan: int | Shard,
) -> None:
    """Run conforming kernels on ordinary inputs; every output must lie in its enclosure."""
    if merge:
        record = ordinary.merge(read_records(merge))
    else:
        names = families.split(",") if families else ordinary.swept_families()
        record = ordinary.search(names, **plan)  # type: ignore[arg-type]
    write_record(out, record)
    bad = record["violations"]
    say(f"{record['cases']} cases, {len(bad)} violations")
    ctx.exit(1 if bad else 0)


@click.command()
@click.option("--rounds", default=400, show_default=True, help="Rounds of all processes together.")
@seed_option
@workers_option
@out_option
@click.pass_context
def refuter(ctx: click.Context, rounds: int, seed: int, workers: int, out: Path) -> None:
    """Climb from random inputs towards each bound; none may be passed."""
    found = climbing.search_all(rounds, seed=seed, workers=workers)
    write_record(out, found.to_json())
    ctx.exit(1 if any(score.violations for score in found.scores.values()) else 0)


@click.command()
def mathematics() -> None:
    """Write the page of the bounds' mathematics, its numbers from the code."""
    text.PAGE.write_text(text.page())
