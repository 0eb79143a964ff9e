"""``dmverify study``: run an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from dmverify.cli.inputs import Files, inputs_options
from dmverify.cli.output import console, json_option, print_json
from dmverify.errors import InputError, unknown_name
from dmverify.studies import STUDIES, Study
from dmverify.studies import Table as StudyTable


@click.command()
@click.argument("name")
@click.option("--quick", is_flag=True, help="Run a reduced version, for a first look.")
@click.option("--seeds", help="Seeds of the inputs, such as 0,1,2; the study's own unless given.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder to write records and plots to.",
)
@click.option(
    "--minutes",
    type=float,
    help="Minutes after which a study that trains on a GPU stops and keeps its state.",
)
@inputs_options
@json_option
def command(
    name: str,
    seeds: str | None,
    as_json: bool,
    inputs: Files,
    minutes: float | None,
    **extent: Any,
) -> None:
    """Run the study NAME; 'dmverify list studies' shows which there are."""
    study = _study(name)
    more = _further(study, inputs=inputs.sources(), minutes=minutes)
    result = study.run(seeds=_seeds(seeds), progress=_progress, **extent, **more)
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


def _further(study: Study, **given: Any) -> dict[str, Any]:
    """The further arguments that were given; only those that the study takes."""
    found = {name: value for name, value in given.items() if value not in (None, ())}
    for name in found.keys() - study.takes:
        raise InputError(
            f"study {study.name} with --{name}",
            rule=f"--{name} is for studies that take it",
            fix=f"use one of {', '.join(s.name for s in STUDIES.values() if name in s.takes)}",
        )
    return found


def _seeds(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise InputError(
            f"seeds {text!r}", rule="seeds are integers between commas", fix="write --seeds 0,1,2"
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
