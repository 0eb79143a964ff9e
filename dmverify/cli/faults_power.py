"""``dmverify faults --power``: what every check notices in every family."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.markup import escape
from rich.table import Table

from dmverify.cli.output import console, print_json
from dmverify.errors import unknown_name
from dmverify.lab.power import lost, missing, read_table
from dmverify.lab.power.page import page, summary, totals


def show_power(families: Sequence[str], *, markdown: bool, as_json: bool) -> bool:
    """Compares the table that ships with what the checks reject now.

    Args:
        families: Some of the table's; all of them if none is named.
        markdown: Print the page instead, and compare nothing.
        as_json: Print one JSON document.

    Returns:
        Whether every size that is listed is still rejected, and nothing lacks a row.

    Raises:
        UnknownNameError: If there is no such family.
    """
    table = read_table()
    for name in families:
        if name not in table["cells"]:
            raise unknown_name("family", name, table["cells"], shown_by="dmverify list families")
    if markdown:
        click.echo(page(table))
        return True
    said = [f"not in the table, or otherwise: {text}" for text in missing(table)]
    for family in families or table["cells"]:
        click.echo(family, err=True)
        said += lost(table, family)
    if as_json:
        print_json({"ok": not said, "differs": said, "pairs": dict(totals(table)), **table})
    else:
        _show(said)
    return not said


def _show(said: Sequence[str]) -> None:
    screen = console()
    header, *rows = summary(read_table())
    shown = Table(title="planted errors", title_justify="left", box=None, pad_edge=False)
    for i, name in enumerate(header):
        shown.add_column(name, no_wrap=i == 0, overflow="fold")
    for row in rows:
        shown.add_row(*map(escape, row))
    screen.print(shown)
    counts = totals(read_table())
    screen.print(
        f"{counts.total()} pairs: {counts['stated']} reject the stated size, "
        f"{counts['larger']} a larger one, {counts['never']} none, each with a reason"
    )
    for text in said:
        screen.print(escape(text))
