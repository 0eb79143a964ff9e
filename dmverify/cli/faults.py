"""``dmverify faults``: every seeded wrong kernel must be rejected; the kill matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.markup import escape
from rich.table import Table

from dmverify.cli.output import console, json_option, print_json

if TYPE_CHECKING:
    from dmverify.conformance.faults import Matrix, Row

MARK, BLANK = "x", "."


@click.command()
@click.argument("faults", nargs=-1, metavar="[FAULT]...")
@click.option(
    "--alarm-seeds",
    default=2,
    show_default=True,
    help="Seeds of every case on which the correct kernel must not be rejected.",
)
@json_option
@click.pass_context
def command(ctx: click.Context, faults: tuple[str, ...], alarm_seeds: int, as_json: bool) -> None:
    """Try FAULT, or every seeded fault, against our checks and against public rules.

    Exit code 1 if a fault is not rejected by the check that names it, or if a check rejects the
    correct kernel.
    """
    from dmverify.conformance.faults import FAULTS, get_fault, kill_matrix

    chosen = [get_fault(name) for name in dict.fromkeys(faults)] or FAULTS
    matrix = kill_matrix(chosen, alarm_seeds=alarm_seeds, progress=_progress)
    if as_json:
        print_json(matrix.to_json())
    else:
        _show(matrix)
    ctx.exit(0 if matrix.ok else 1)


def _show(matrix: Matrix) -> None:
    screen = console()
    screen.print(_faults(matrix))
    hidden = [row for row in matrix.rows if not row.killed_without_bits]
    if hidden:
        screen.print(_hidden(hidden))
    screen.print(_counts(matrix))
    for (case, contract), checks in matrix.alarms.items():
        if checks:
            screen.print(escape(f"false alarm: {', '.join(checks)} on {case} ({contract})"))
    for row in matrix.survivors:
        screen.print(escape(f"not rejected by {row.fault.check}: {row.fault.id}"))


def _faults(matrix: Matrix) -> Table:
    from dmverify.conformance.public_rules import PUBLIC_RULES

    table = Table(title="faults", title_justify="left", box=None, pad_edge=False)
    for name in ("fault", "rejected by", "bounds"):
        table.add_column(name, no_wrap=True)
    for name in PUBLIC_RULES:
        table.add_column(name, overflow="fold", max_width=11)
    for row in matrix.rows:
        by = row.fault.check if row.killed else "[bold red]nothing[/]"
        bounds = MARK if row.killed_without_bits else BLANK
        rules = (MARK if killed else BLANK for killed in row.rules.values())
        table.add_row(row.fault.id, by, bounds, *rules)
    return table


def _hidden(rows: list[Row]) -> Table:
    title = "rejected by bits only"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("fault", no_wrap=True)
    table.add_column("error", justify="right", no_wrap=True)
    table.add_column("why no bound sees it", overflow="fold")
    for row in rows:
        table.add_row(row.fault.id, f"{row.error:.1e}", escape(row.fault.hidden or "not known"))
    return table


def _counts(matrix: Matrix) -> Table:
    summary = matrix.to_json()
    total, alarms = len(matrix.rows), summary["false_alarms"]
    table = Table(title="kills", title_justify="left", box=None, pad_edge=False)
    for name in ("suite", "rule", f"kills of {total}", "correct kernel rejected"):
        table.add_column(name, overflow="fold")
    ours = f"{alarms['alarms']} of {alarms['cases']} cases"
    killed = sum(row.killed for row in matrix.rows)
    bounded = sum(row.killed_without_bits for row in matrix.rows)
    table.add_row("dmverify", "bits and bounds", str(killed), "-")
    table.add_row("dmverify", "bounds alone", str(bounded), ours)
    for rule in summary["public_rules"].values():
        refused = f"{rule['rejects_correct']} of {summary['cases']} cases"
        table.add_row(rule["suite"], rule["rule"], str(rule["kills"]), refused)
    return table


def _progress(line: str) -> None:
    click.echo(line, err=True)
