"""Data that ship with the project, made anew."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dmverify.cli.lab.options import FILE, FOLDER, say
from dmverify.conformance.captures.store import DATA
from dmverify.conformance.coverage.space import spaces
from dmverify.files import write_atomically
from dmverify.lab import power as planted
from dmverify.lab.captures import remake
from dmverify.lab.captures.write import write
from dmverify.lab.coverage.design import search
from dmverify.lab.coverage.freeze import frozen
from dmverify.lab.mutants import signatures as causes
from dmverify.lab.power.page import page
from dmverify.lab.power.record import NAME, make_table

SEED = 0  # of the rows that ship
TABLE = Path(planted.__file__).parent / NAME


@click.command()
@click.option(
    "--table",
    "path",
    type=FILE,
    default=TABLE,
    help="File for the table; the one that ships unless given.",
)
@click.option(
    "--page",
    "shown",
    type=FILE,
    default=Path("docs/power.md"),
    help="File for the page; the one that ships unless given.",
)
def power(path: Path, shown: Path) -> None:
    """Measure which planted errors every check notices in every family; write table and page."""
    table = make_table(progress=say)
    write_atomically(path, json.dumps(table, indent=None, separators=(",", ":")) + "\n")
    shown.parent.mkdir(exist_ok=True)
    write_atomically(shown, page(table))


@click.command()
@click.argument("verb", type=click.Choice(["write", "measure"]))
@click.argument("mutants", nargs=-1, metavar="[MUTANT]...")
def signatures(verb: str, mutants: tuple[str, ...]) -> None:
    """Write the signatures of the seeded faults, or measure how often they tell the right cause.

    With MUTANT, write only its signatures anew, and keep the others.
    """
    if verb == "write":
        click.echo(causes.write(mutants, say))
        return
    for line in causes.measure(say):
        click.echo(line)


@click.command()
def coverage() -> None:
    """Search rows that meet every combination, and print them as CSV.

    For a change of factors, needs or families. Recordings name cases, so a new table makes old
    recordings speak of cases that no level has any more.
    """
    click.echo(frozen(search(SEED, say), spaces()), nl=False)


@click.command()
@click.option("--check", is_flag=True, help="Compare with what is committed and write nothing.")
@click.option(
    "--oracle", is_flag=True, help="Compare the encoder with the transformers package too."
)
@click.option("--output", type=FOLDER, default=DATA, help="Folder for the captures.")
@click.pass_context
def captures(ctx: click.Context, check: bool, oracle: bool, output: Path) -> None:
    """Train and run the two models, and write their attention tensors; needs torch and weights."""
    words = ["--output", str(output), *["--check"] * check, *["--oracle"] * oracle]
    remake.restart_pinned(words)
    made, manifest = remake.make((DATA / remake.TEXT).read_text(encoding="ascii"), oracle=oracle)
    if not check:
        click.echo(f"{len(made)} captures, {write(made, manifest, output)} bytes")
        return
    count, wrong = remake.compare(made, output)
    click.echo(f"{count - len(wrong)} of {count} tensors have the same bits")
    for name in wrong:
        click.echo(f"differs: {name}")
    ctx.exit(1 if wrong else 0)
