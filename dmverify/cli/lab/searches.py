"""Searches for what the suite must never do."""

from __future__ import annotations

import tempfile
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
from dmverify.lab import false_positives as correct
from dmverify.lab import kills as killed
from dmverify.shards import Shard


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
def false_positives(
    ctx: click.Context,
    /,
    kernels: str,
    families: str,
    part: bool,
    merge: tuple[Path, ...],
    out: Path,
    **plan: int | Shard,
) -> None:
    """Judge kernels known to be correct; exit code 1 if a check rejects one."""
    if merge:
        record = correct.merge(read_records(merge), part=part)
    else:
        some = [name for name in families.split(",") if name]
        record = correct.search_shard(kernels.split(","), families=some, **plan)  # type: ignore[arg-type]
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
