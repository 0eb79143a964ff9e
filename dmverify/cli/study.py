"""``dmverify study``: run an experiment."""

from __future__ import annotations

from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table

from dmverify.cli.output import console, json_option, print_json
from dmverify.errors import InputError, unknown_name
from dmverify.studies import STUDIES, Study
from dmverify.studies import Table as StudyTable


@click.command()
@click.argument("name")
@click.option("--quick", is_flag=True, help="A reduced run, for a first look.")
@click.option("--seeds", help="Seeds of the inputs, such as 0,1,2; else the study's own.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Write all here.")
@json_option
def command(name: str, quick: bool, seeds: str | None, out: Path | None, as_json: bool) -> None:
    """Run the study NAME; 'dmverify list studies' shows which there are."""
    study = _study(name)
    result = study.run(seeds=_seeds(seeds), quick=quick, out=out, progress=_progress)
    if as_json:
        print_json(result.to_json())
        return
    screen = console()
    for table in result.tables():
        screen.print(_rich(table))
        if table.note:
            screen.print(escape(table.note), soft_wrap=True)


def _study(name: str) -> Study:
    if name not in STUDIES:
        raise unknown_name("study", name, STUDIES)
    return STUDIES[name]


def _seeds(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise InputError(
            f"seeds {text!r}", rule="seeds are integers between commas", fix="write 0,1,2"
        ) from None


def _progress(line: str) -> None:
    click.echo(line, err=True)


def _rich(table: StudyTable) -> Table:
    shown = Table(title=escape(table.title), title_justify="left", box=None, pad_edge=False)
    for column in table.columns:
        shown.add_column(escape(column), overflow="fold")
    for row in table.rows:
        shown.add_row(*(escape(cell) for cell in row))
    return shown
