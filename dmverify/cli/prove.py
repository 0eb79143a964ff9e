"""``dmverify prove``: prove the lemmas, refute their controls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dmverify.cli.output import json_option, print_json
from dmverify.errors import DependencyError, NothingRanError, unknown_name

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
    """Prove LEMMA (or certificate), or all; exit code 1 unless proved and every control refuted."""
    try:
        from dmverify.proofs import known_ids, prove, table
    except ImportError as error:
        raise DependencyError(
            str(error),
            rule="proofs need z3, cvc5 and bitwuzla",
            fix="pip install 'dmverify[prove]'",
        ) from error
    results: list[LemmaResult] = []
    for name in _wanted(lemmas, known_ids()):
        click.echo(name, err=True)
        results += prove([name], timeout=timeout)
    if not results:
        raise NothingRanError("no lemma", rule="a proof needs a lemma", fix="name one")
    if as_json:
        print_json({"lemmas": [result.to_json() for result in results]})
    else:
        click.echo(table(results))
    ctx.exit(0 if all(result.ok for result in results) else 1)


def _wanted(asked: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """The ids to run, all unknown ones refused before any solver starts."""
    for name in asked:
        if name not in known:
            raise unknown_name("lemma", name, known, shown_by="dmverify list lemmas")
    return asked or known
