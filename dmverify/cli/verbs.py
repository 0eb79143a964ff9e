"""Groups of commands that are imported when they are called, so that help imports nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import click
from click.shell_completion import CompletionItem

from dmverify.cli.examples import with_example
from dmverify.late import object_at

Table: TypeAlias = Mapping[str, tuple[str, str]]
"""Verb: where its command is, ``module`` or ``module:name``, and its line in the help."""


class Verbs(click.Group):
    """A group whose commands are imported one by one.

    Args:
        *args: Arguments of ``click.Group``.
        package: Where the modules of the table are.
        table: The verbs, in the order in which help shows them.
        **named: Keywords of ``click.Group``.
    """

    def __init__(self, *args: Any, package: str, table: Table, **named: Any) -> None:
        super().__init__(*args, **named)
        self._package, self._table = package, table
        inside = package.removeprefix(__package__).removeprefix(".")
        self._path = f"{inside} " if inside else ""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the table's order."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a verb, or None."""
        if cmd_name not in self._table:
            return None
        module, _, name = self._table[cmd_name][0].partition(":")
        command: click.Command = object_at(f"{self._package}.{module}:{name or 'command'}")
        return with_example(command, f"{self._path}{cmd_name}")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The verbs that begin so, and options: from the table, so that a shell need not wait."""
        found = [
            CompletionItem(verb, help=line)
            for verb, (_, line) in self._table.items()
            if verb.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs from the table."""
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, line) for verb, (_, line) in self._table.items()])
