"""``dmverify record``: the recordings that ship, made anew on a Hopper GPU."""

from __future__ import annotations

from pathlib import Path

import click

from dmverify.cli.output import progress


@click.command()
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option("--every", default=1, show_default=True, help="Take one of so many cases.")
def command(out: Path, every: int) -> None:
    """Run the bundled kernel on the plan of the acceptance and write recordings to OUT.

    They are what 'dmverify verify' judges on machines without a Hopper GPU. Nothing is judged here.
    """
    from dmverify.conformance.acceptance.plan import TAILS, combinations
    from dmverify.conformance.recordings.make import record
    from dmverify.conformance.resolve import resolve_kernel

    if every < 1:
        raise click.UsageError("--every takes 1 or more")
    asked = [(item.case, item.contract) for item in combinations()[::every]]
    with progress() as listener:
        digests = record(resolve_kernel("bundled"), out, asked=asked, long=TAILS, emit=listener)
    click.echo(f"{len(digests.cases)} cases in {out}; all outputs together: {digests.sha256}")
