"""Options and ends that several programs of the laboratory share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dmverify.cli.inputs import seed_of
from dmverify.files import write_atomically
from dmverify.shards import Shard, read_shard

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


def _shard(ctx: click.Context, option: click.Parameter, text: str) -> Shard:
    return read_shard(text)


out_option = click.option("--out", type=FILE, required=True, help="File for the record.")
seed_option = seed_of("Seed of the whole search, the same for every shard.")
shard_option = click.option(
    "--shard", default="0/1", callback=_shard, help="Which part to run: I/N, with I from 0."
)
merge_option = click.option(
    "--merge",
    type=FILE,
    multiple=True,
    help="Record of one shard, to merge with the others; repeatable.",
)
workers_option = click.option(
    "--workers", type=click.IntRange(1), default=1, show_default=True, help="Number of processes."
)


def search_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a search that is run in shards and merged."""
    for option in (out_option, merge_option, shard_option, workers_option, seed_option):
        command = option(command)
    return command


def read_records(paths: tuple[Path, ...]) -> list[dict[str, Any]]:
    """The records of shards."""
    return [json.loads(path.read_text()) for path in paths]


def write_record(path: Path, record: object) -> None:
    """Writes a record, all of it or nothing."""
    write_atomically(path, json.dumps(record, indent=1) + "\n")


def say(line: str) -> None:
    """One line of progress, on stderr."""
    click.echo(line, err=True)
