"""``dmverify prove``: prove the lemmas, refute their controls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.markup import escape
from rich.table import Table

from dmverify.cli.output import console, json_option, print_json
from dmverify.errors import DependencyError, NothingRanError

if TYPE_CHECKING:
    from dmverify.proofs import LemmaResult


@click.command()
@click.argument("lemmas", nargs=-1, metavar="[LEMMA]...")
@click.option("--timeout", type=float, help="Seconds for each solver call, if not the lemma's own.")
@json_option
@click.pass_context
def command(
    ctx: click.Context, lemmas: tuple[str, ...], timeout: float | None, as_json: bool
) -> None:
    """Prove LEMMA, or all of them; exit code 1 unless all are proved and all controls refuted."""
    try:
        from dmverify.proofs import all_lemmas, get_lemma, prove
    except ImportError as error:
        raise DependencyError(
            str(error),
            rule="proofs need z3, cvc5 and bitwuzla",
            fix="pip install 'dmverify[prove]'",
        ) from error
    results: list[LemmaResult] = []
    for lemma in [get_lemma(name) for name in lemmas] or all_lemmas():
        click.echo(lemma.id, err=True)
        results += prove([lemma.id], timeout=timeout)
    if not results:
        raise NothingRanError("no lemma", rule="a proof needs a lemma", fix="name one")
    if as_json:
        print_json({"lemmas": [result.to_json() for result in results]})
    else:
        console().print(_table(results))
    ctx.exit(0 if all(result.ok for result in results) else 1)


def _table(results: list[LemmaResult]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("lemma", "verdict", "control"):
        table.add_column(name, no_wrap=True)
    table.add_column("seconds", justify="right")
    table.add_column("solvers", overflow="fold")
    table.add_column("detail", overflow="fold")
    for result in results:
        style = "green" if result.ok else "bold red"
        table.add_row(
            result.id,
            f"[{style}]{escape(result.verdict)}[/]",
            f"[{style}]{escape(result.control)}[/]",
            f"{result.seconds:.1f}",
            escape(", ".join(result.solvers)),
            escape(result.detail),
        )
    return table
