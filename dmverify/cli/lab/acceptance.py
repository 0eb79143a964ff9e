"""The acceptance of a build of the bundled kernel, on a Hopper GPU."""

from __future__ import annotations

from pathlib import Path

import click

from dmverify.cli.lab.options import FOLDER
from dmverify.kernel.build import HEAD_DIMS
from dmverify.lab.acceptance.precompile import ROUNDS
from dmverify.lab.acceptance.precompile import precompile as compile_rounds
from dmverify.lab.acceptance.small import WAYS, run_way
from dmverify.lab.acceptance.stages import STAGES, accept


@click.command()
@click.argument("out", type=FOLDER)
@click.argument("stages", nargs=-1, type=click.Choice(list(STAGES)), metavar="[STAGE]...")
@click.option("--seconds", default=1e9, help="Time after which no new stage starts.")
@click.pass_context
def acceptance(ctx: click.Context, out: Path, stages: tuple[str, ...], seconds: float) -> None:
    """Run STAGE, or all in the table's order; logs and recordings go to OUT.

    A stage that an earlier run into the same folder has passed is not repeated, and 'combinations'
    goes on where it stopped. Exit code 1 if one fails, or if the seconds were used up before all
    had run to their end; the last line then says so.
    """
    ctx.exit(0 if accept(out, stages, seconds=seconds, say=click.echo) else 1)


@click.command()
@click.argument("rounds", nargs=-1, type=click.Choice(list(ROUNDS)), metavar="[ROUND]...")
def precompile(rounds: tuple[str, ...]) -> None:
    """Fill the build cache with what the acceptance runs; needs no GPU."""
    for line in compile_rounds(rounds):
        click.echo(line)


@click.command()
@click.argument("way", type=click.Choice(list(WAYS)), default="release")
@click.argument("head_dim", type=int, required=False)
def small(way: str, head_dim: int | None) -> None:
    """Run small cases once, for compute-sanitizer to watch."""
    run_way(way, HEAD_DIMS if head_dim is None else (head_dim,))
