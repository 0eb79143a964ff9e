"""Kernels that others ship: asked on a Hopper GPU once, judged on any CPU from what they said."""

from __future__ import annotations

from pathlib import Path

import click

from dmverify.cli.lab.options import FOLDER, say
from dmverify.lab.third_party.asking import ask_all
from dmverify.lab.third_party.checking import check_all
from dmverify.lab.third_party.kernels import ASKED


@click.command()
@click.argument("out", type=FOLDER)
@click.option("--seconds", default=60.0, show_default=True, help="Time limit of one answer.")
@click.option(
    "--peers",
    default=",".join(ASKED),
    help="Names of kernels, separated by commas; all of them unless given.",
)
@click.pass_context
def ask(ctx: click.Context, out: Path, seconds: float, peers: str) -> None:
    """Ask every peer, each in a process of its own; OUT gets a recording of each.

    What OUT holds already is not asked again. Exit code 3 if one could not be asked.
    """
    ctx.exit(0 if ask_all(peers.split(","), out, seconds=seconds, say=say) else 3)


@click.command()
@click.argument("answers", type=FOLDER)
@click.option("--reports", type=FOLDER, help="New folder for the reports and for what ships.")
@click.pass_context
def judge(ctx: click.Context, answers: Path, reports: Path | None) -> None:
    """Judge ANSWERS; exit code 0 if all conform, 1 if one does not, 5 if there is none."""
    ctx.exit(check_all(answers, reports, say=click.echo))
