"""``dmverify record``: the recordings that ship, made anew on a Hopper GPU."""

from __future__ import annotations

import os
from pathlib import Path

import click

from dmverify.cli.output import progress
from dmverify.conformance.resolve import resolve_kernel
from dmverify.errors import unknown_name
from dmverify.lab.acceptance.plan import TAILS
from dmverify.lab.recordings import DATA, load_digests
from dmverify.lab.recordings.make import record, record_missing
from dmverify.lab.recordings.plan import PARTS, plan
from dmverify.lab.recordings.shipped import DIGESTS


@click.command()
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--parts", default="", help="Parts of the plan, separated by commas; all of them unless given."
)
@click.option(
    "-j", "processes", type=click.IntRange(1), help="Number of processes; one a core unless given."
)
@click.option(
    "--missing", is_flag=True, help="Record only what the shipped recording has no answer to."
)
@click.option("--kernel", default="bundled", show_default=True, help="Kernel to record.")
def command(out: Path, parts: str, processes: int | None, missing: bool, kernel: str) -> None:
    """Run the bundled kernel on the plan of the recording and write hashes and answers to OUT.

    They are what 'dmverify verify' judges on machines without a Hopper GPU. Nothing is judged here.
    Called again after an interruption, it goes on where it stopped. With --missing the hashes in
    OUT are those of the shipped recording and the new ones.
    """
    names = tuple(filter(None, parts.split(","))) or PARTS
    for name in names:
        if name not in PARTS:
            raise unknown_name("part of the plan", name, PARTS)
    chosen, asked = resolve_kernel(kernel), plan(names)
    count = processes or os.cpu_count() or 1
    with progress() as listener:
        if missing:
            old = load_digests(DATA / DIGESTS)
            asked = tuple(key for key in asked if key not in old.cases and key not in old.unserved)
            digests = record_missing(
                chosen, out, onto=old, asked=asked, processes=count, emit=listener
            )
        else:
            long = TAILS if names == PARTS else ()
            digests = record(chosen, out, asked=asked, long=long, processes=count, emit=listener)
    click.echo(
        f"{len(digests.cases)} pairs in {out}, {len(digests.unserved)} not served; "
        f"all outputs together: {digests.sha256}"
    )
