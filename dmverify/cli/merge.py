"""``dmverify merge``: the report of all shards of a run."""

from __future__ import annotations

from pathlib import Path

import click

from dmverify.cli.output import console, json_option, print_json
from dmverify.cli.pipes import reader_may_leave
from dmverify.conformance.report.console import show
from dmverify.conformance.spread.merge import merge
from dmverify.files import prepare_folder


@click.command()
@click.argument("parts", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder to write reports to."
)
@json_option
@click.pass_context
def command(ctx: click.Context, parts: tuple[Path, ...], out: Path | None, as_json: bool) -> None:
    """Join PARTS, folders of 'dmverify verify KERNEL --shard I/N --out PART', into one report.

    It is the report that one run gives, and nothing is judged again. The exit code is that of its
    verdict, as for 'dmverify verify'; 2 if a shard is missing, interrupted or of another run.
    """
    if out is not None:
        prepare_folder(out)
    report = merge(parts)
    with reader_may_leave():
        if as_json:
            print_json(report.to_json())
        else:
            show(report, console())
    if out is not None:
        report.write(out)
    ctx.exit(report.exit_code)
