"""``dmverify bounds``: how far a conforming kernel may be, and what that consists of."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from dmverify.cli.inputs import Files, inputs_options
from dmverify.cli.output import console, json_option, print_json
from dmverify.conformance.bounds import TermBound, bounds
from dmverify.conformance.contracts import resolve_contract
from dmverify.conformance.families import generate
from dmverify.conformance.tensor_files import name_cases
from dmverify.files import write_atomically
from dmverify.studies.bounds.sweep import AXES, picture, points
from dmverify.studies.plot import render

DEFAULT_CASE = "gaussian/spread-1@0"
SHOWN = 0.01  # of a bound: smaller terms are in the JSON only


@click.command()
@click.argument("contract", default="article")
@click.option(
    "--case",
    "case_id",
    help="Inputs and shape, such as gaussian/spread-4,queries=512,keys=512@0; "
    f"{DEFAULT_CASE} if neither this nor --inputs is given.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for SVG plots of bound and observed error over tokens, logit spread and offset.",
)
@inputs_options
@json_option
def command(
    contract: str,
    case_id: str | None,
    plot: Path | None,
    inputs: Files,
    as_json: bool,
) -> None:
    """Show the bounds of CONTRACT on the inputs of a case, term by term.

    CONTRACT is a name, or a file that ends in .toml or .json; article unless given.

    Outputs: relative to the output's root mean square. Row sum: relative to each row's sum of
    abs(dS). Terms below a hundredth of their bound are left out of the table, not of the JSON. A
    term whose premise fails on these inputs is infinite (null in the JSON), with the premise.
    """
    stated = resolve_contract(contract)
    ids, _ = name_cases((case_id,) if case_id else (), inputs.sources())
    if len(ids) > 1:
        raise click.UsageError(
            f"bounds are computed for one case: name it with --case {' or '.join(ids)}"
        )
    case = generate(ids[0] if ids else DEFAULT_CASE, contract=stated.name)
    report = bounds(stated, case.problem, inputs=case.inputs)
    if plot is not None:
        _draw(stated.name, plot)
    if as_json:
        print_json(
            {
                "contract": stated.to_json(),
                "case": case.id,
                "problem": asdict(case.problem),
                "bounds": [_plain(row) for row in report],
            }
        )
        return
    table = Table(box=None, pad_edge=False)
    for name in ("quantity", "strength", "term"):
        table.add_column(name, no_wrap=True)
    for name in ("median", "largest"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("rests on", overflow="fold")
    said = set()
    for row in report:
        bound = (row.quantity, row.strength, row.unbounded)
        if row.unbounded and bound in said:
            continue  # one term is enough to leave a bound open
        said.add(bound)
        if row.unbounded or row.largest >= SHOWN * report.total(row.quantity, row.strength):
            numbers = (f"{row.median:.3g}", f"{row.largest:.3g}")
            table.add_row(row.quantity, row.strength, row.term, *numbers, escape(_ground(row)))
    out = console()
    out.print(f"[bold]{escape(stated.name)}[/]: {escape(stated.summary)}")
    out.print(escape(f"{case.id}: {case.problem}"), soft_wrap=True)
    out.print(table)


def _ground(row: TermBound) -> str:
    """What it rests on, or why it says nothing."""
    if not row.unbounded:
        return row.cites
    share = "" if row.unbounded_share == 1 else f" in {100 * row.unbounded_share:.3g} % of the rows"
    return f"says nothing{share}: {row.unbounded}"


def _plain(row: TermBound) -> dict[str, Any]:
    """Plain data; JSON has no infinity, so a bound that says nothing is null beside its reason."""
    sizes = {name: getattr(row, name) for name in ("median", "largest")}
    return asdict(row) | {name: x if isfinite(x) else None for name, x in sizes.items()}


def _draw(contract: str, directory: Path) -> None:
    """One SVG an axis; each says on stderr that it is there."""
    directory.mkdir(parents=True, exist_ok=True)
    for axis in AXES:
        path = directory / f"bounds-along-{axis}.svg"
        write_atomically(path, render(picture(axis, points(axis, contracts=(contract,)))))
        click.echo(str(path), err=True)
