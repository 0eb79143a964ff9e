"""``dmverify compare``: what became worse from one run to the next."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape
from rich.table import Table

from dmverify.ci.compare import HEADS, as_markdown, compare
from dmverify.ci.documents import read_document
from dmverify.cli.output import console, json_option, print_json
from dmverify.cli.records import as_record

if TYPE_CHECKING:
    from dmverify.ci.compare import Change

WORSE = 1  # exit code


def _fraction(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """A fraction, written ``10%`` or ``0.1``."""
    number, sign, rest = value.partition("%")
    try:
        if rest:
            raise ValueError
        return float(number) / (100 if sign else 1)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no percentage; write 10%") from None


@dataclass(frozen=True)
class Options:
    """What counts as worse, and how it is shown."""

    limit: float
    whole: bool
    markdown: bool
    as_json: bool


@click.command()
@click.argument("old", type=click.Path(exists=True, path_type=Path))
@click.argument("new", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--fail-if-worse",
    "limit",
    metavar="PERCENT",
    default="10%",
    show_default=True,
    callback=_fraction,
    help="By how much margins, errors and times may grow.",
)
@click.option("--all", "whole", is_flag=True, help="Show what did not change too.")
@click.option("--markdown", is_flag=True, help="Print a table for a step summary or a comment.")
@json_option
@click.pass_context
@as_record(Options)
def command(ctx: click.Context, old: Path, new: Path, options: Options) -> None:
    """Compare two reports (report.json, or its folder), or two outputs of 'bench --json'.

    Exit code 0: nothing is worse by more than the limit; 1: something is; 2: wrong usage.
    """
    changes, notes = compare(read_document(old), read_document(new), limit=options.limit)
    shown = [one for one in changes if options.whole or one.worse or one.old != one.new]
    worse = sum(one.worse for one in changes)
    end = f"{worse} of {len(changes)} quantities are worse by more than {options.limit:.0%}"
    if options.as_json:
        rows = [asdict(one) for one in shown]
        print_json({"worse": worse, "of": len(changes), "notes": notes, "changes": rows})
    elif options.markdown:
        click.echo("\n".join([*as_markdown(shown), "", *(f"- {note}" for note in notes), end]))
    else:
        show(shown, (*notes, end))
    ctx.exit(WORSE if worse else 0)


def show(changes: list[Change], notes: tuple[str, ...]) -> None:
    """A table on the console, and a line a note."""
    table = Table(box=None, pad_edge=False)
    for name in HEADS:
        table.add_column(name, justify="right" if name in ("old", "new", "change") else "left")
    for one in changes:
        style = "bold red" if one.worse else ""
        table.add_row(*map(escape, one.cells), style=style)
    out = console()
    if changes:
        out.print(table)
    for note in notes:
        out.print(note, soft_wrap=True, markup=False)
