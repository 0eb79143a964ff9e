"""``dmverify gen``: the first of three steps, a list of cases."""

from __future__ import annotations

from pathlib import Path

import click

from dmverify.conformance.questions import list_asked, write_asked
from dmverify.conformance.words import visible


@click.command()
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--contract", default="bundled", show_default=True, help="Contract, or its file.")
@click.option("--level", default="smoke", show_default=True, help="smoke or full.")
@click.option("--seed", default=0, show_default=True, help="First seed of the drawn cases.")
@click.option("--case", "cases", multiple=True, help="Case id instead of a level; repeatable.")
def command(out: Path, contract: str, level: str, seed: int, cases: tuple[str, ...]) -> None:
    """Write the cases of a level to OUT, one JSON object a line.

    Run them with 'dmverify run' where the kernel is, and judge the recording with 'dmverify check'
    on any machine.
    """
    asked = list_asked(level=level, contract=contract, seed=seed, cases=cases)
    write_asked(asked, out)
    click.echo(visible(f"{len(asked)} cases in {out}"))
