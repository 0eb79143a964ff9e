"""``dmverify faults``: every seeded wrong kernel must be rejected; the kill matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import click
from rich.markup import escape
from rich.table import Table

from dmverify.cli.output import console, json_option, print_json

if TYPE_CHECKING:
    from dmverify.conformance.faults import Matrix, Row

MARK, BLANK = "x", "."

Rows: TypeAlias = list[list[str]]


@click.command()
@click.argument("faults", nargs=-1, metavar="[FAULT]...")
@click.option(
    "--alarm-seeds",
    default=2,
    show_default=True,
    help="Seeds of every case on which the correct kernel must not be rejected.",
)
@click.option("--markdown", is_flag=True, help="Print the counts and the matrix in Markdown.")
@json_option
@click.pass_context
def command(
    ctx: click.Context, faults: tuple[str, ...], alarm_seeds: int, markdown: bool, as_json: bool
) -> None:
    """Try FAULT, or every seeded fault, against our checks and against public rules.

    Exit code 1 if a fault is not rejected by the check that names it, or if a check rejects the
    correct kernel.
    """
    from dmverify.conformance.faults import FAULTS, get_fault, kill_matrix

    chosen = [get_fault(name) for name in dict.fromkeys(faults)] or FAULTS
    matrix = kill_matrix(chosen, alarm_seeds=alarm_seeds, progress=_progress)
    if as_json:
        print_json(matrix.to_json())
    elif markdown:
        click.echo("\n\n".join(_markdown(title, rows) for title, rows in _tables(matrix).items()))
    else:
        _show(matrix)
    ctx.exit(0 if matrix.ok else 1)


def _show(matrix: Matrix) -> None:
    screen = console()
    for title, (header, *rows) in _tables(matrix).items():
        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        for i, name in enumerate(header):
            table.add_column(name, overflow="fold", no_wrap=i == 0 and title != "kills")
        for row in rows:
            table.add_row(*map(escape, row))
        screen.print(table)
    for (case, contract), checks in matrix.alarms.items():
        if checks:
            screen.print(escape(f"false alarm: {', '.join(checks)} on {case} ({contract})"))
    for survivor in matrix.survivors:
        screen.print(escape(f"not rejected by {survivor.fault.check}: {survivor.fault.id}"))


def _markdown(title: str, rows: Rows) -> str:
    header, *body = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([f"### {title}", "", header, "|---" * len(rows[0]) + "|", *body])


def _tables(matrix: Matrix) -> dict[str, Rows]:
    """Title and rows of each table, the header first."""
    hidden = [row for row in matrix.rows if not row.killed_without_bits]
    tables = {"faults": _faults(matrix), "kills": _counts(matrix)}
    if hidden:
        tables["rejected by bits only"] = _hidden(hidden)
    return tables


def _faults(matrix: Matrix) -> Rows:
    from dmverify.conformance.public_rules import PUBLIC_RULES

    rows = [["fault", "rejected by", "bounds alone", *PUBLIC_RULES]]
    for row in matrix.rows:
        kills = (row.killed_without_bits, *row.rules.values())
        by = row.fault.check if row.killed else "nothing"
        rows.append([row.fault.id, by, *(MARK if killed else BLANK for killed in kills)])
    return rows


def _hidden(hidden: list[Row]) -> Rows:
    rows = [["fault", "relative error", "why no bound sees it"]]
    rows += [[r.fault.id, f"{r.error:.1e}", r.fault.hidden or "not known"] for r in hidden]
    return rows


def _counts(matrix: Matrix) -> Rows:
    summary = matrix.to_json()
    total, alarms = len(matrix.rows), summary["false_alarms"]
    killed = sum(row.killed for row in matrix.rows)
    bounded = sum(row.killed_without_bits for row in matrix.rows)
    clean = f"{alarms['alarms']} of {alarms['cases']} cases"
    rows = [
        ["suite", "rule", f"kills of {total}", "rejects the correct kernel"],
        ["dmverify", "bits and bounds", str(killed), "never, by definition"],
        ["dmverify", "bounds alone", str(bounded), clean],
    ]
    for rule in summary["public_rules"].values():
        refused = f"{rule['rejects_correct']} of {summary['cases']} cases"
        rows.append([rule["suite"], rule["rule"], str(rule["kills"]), refused])
    return rows


def _progress(line: str) -> None:
    click.echo(line, err=True)
