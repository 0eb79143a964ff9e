"""Searches for what the suite must never do."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import click

from dmverify.cli.lab.options import (
    merge_option,
    out_option,
    read_records,
    seed_option,
    shard_option,
    write_record,
)
from dmverify.cli.records import as_record
from dmverify.lab import false_positives as correct
from dmverify.lab import kills as killed
from dmverify.shards import Shard


@dataclass(frozen=True)
class Options:
    """What is searched: all of a plan, or one shard of it."""

    per: int
    start: int
    every: int
    kernels: str
    families: str
    shard: Shard

    def plan(self) -> correct.Plan:
        """The whole search."""
        families = [name for name in self.families.split(",") if name]
        return correct.Plan(self.per, self.start, self.every, self.kernels.split(","), families)


@click.command()
@click.option("--per", default=100, show_default=True, help="Cases of each mode and family.")
@click.option(
    "--start",
    default=0,
    help="First case of each mode and family; earlier searches had those before.",
)
@click.option(
    "--every", default=1, show_default=True, help="Ask the kernel again in every N-th case."
)
@click.option(
    "--kernels",
    default="simulation,emulator",
    show_default=True,
    help="Names of kernels, separated by commas.",
)
@click.option(
    "--families",
    default="",
    help="Names of families, separated by commas; all of them unless given.",
)
@click.option("--part", is_flag=True, help="Merge the given shards although others are missing.")
@shard_option
@merge_option
@out_option
@click.pass_context
@as_record(Options)
def false_positives(
    ctx: click.Context, merge: tuple[Path, ...], part: bool, out: Path, options: Options
) -> None:
    """Judge kernels known to be correct; exit code 1 if a check rejects one."""
    if merge:
        record = correct.merge(read_records(merge), part=part)
    else:
        record = correct.search_shard(options.plan(), options.shard)
    write_record(out, record)
    ctx.exit(1 if record["alarms"] else 0)


@click.command()
@click.option(
    "--kills", "count", default=100, show_default=True, help="Number of runs that are killed."
)
@seed_option
@out_option
@click.pass_context
def kills(ctx: click.Context, count: int, seed: int, out: Path) -> None:
    """Kill runs at random times and go on; exit code 1 if a byte is another one in the end."""
    with tempfile.TemporaryDirectory() as folder:
        tally = killed.search(count, seed, Path(folder))
    write_record(out, vars(tally))
    ctx.exit(1 if tally.different else 0)
