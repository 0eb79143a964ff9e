"""``dmverify prove``: prove the lemmas, refute their controls."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import click

from dmverify.cli.output import json_option, print_json
from dmverify.cli.records import as_record
from dmverify.errors import NothingRanError, unknown_name
from dmverify.proofs import LemmaResult, known_ids, prove, table
from dmverify.proofs.every_tie import all_ties
from dmverify.proofs.statements import STATEMENTS, exported
from dmverify.proofs.table import ties_table
from dmverify.proofs.theorems import check_theorems
from dmverify.proofs.ties import compare
from dmverify.proofs.trusted import shown, trusted_base


@dataclass(frozen=True)
class Options:
    """What is checked, how long a solver may take, and how the results are shown."""

    timeout: float | None
    theorems: bool
    ties: bool
    as_json: bool


@click.command()
@click.argument("lemmas", nargs=-1, metavar="[LEMMA]...")
@click.option(
    "--timeout",
    type=float,
    help="Seconds for each call of a solver; each lemma's own limit unless given.",
)
@click.option(
    "--theorems", is_flag=True, help="Check the theorems in Rocq instead; needs coqc and Flocq."
)
@click.option(
    "--ties", is_flag=True, help="Compare the bounds in the code with the theorems instead."
)
@json_option
@click.pass_context
@as_record(Options)
def command(ctx: click.Context, lemmas: tuple[str, ...], options: Options) -> None:
    """Prove LEMMA (or certificate), or all; exit code 1 unless proved and every control refuted.

    Without a LEMMA the bounds are compared with the theorems too, and the trusted base is printed.
    """
    as_json = options.as_json
    if options.theorems:
        _theorems(as_json)
        return
    if options.ties:
        ctx.exit(0 if _ties(as_json) else 1)
    results: list[LemmaResult] = []
    for name in _wanted(lemmas, known_ids()):
        click.echo(name, err=True)
        results += prove([name], timeout=options.timeout)
    if not results:
        raise NothingRanError(
            "no lemma",
            rule="at least one lemma or certificate is proved",
            fix="name one of 'dmverify list lemmas'",
        )
    if as_json:
        print_json({"lemmas": [result.to_json() for result in results]})
    else:
        click.echo(table(results))
    tied = bool(lemmas or as_json) or _ties(as_json)
    if not lemmas and not as_json:
        click.echo(_trusted())
    ctx.exit(0 if tied and all(result.ok for result in results) else 1)


def _wanted(asked: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """The ids to run, all unknown ones refused before any solver starts."""
    for name in asked:
        if name not in known:
            raise unknown_name("lemma", name, known, shown_by="dmverify list lemmas")
    return asked or known


def _trusted() -> str:
    return shown(trusted_base())


def _ties(as_json: bool) -> bool:
    """Whether bounds have their theorems' right sides, and statements are the exported ones."""
    found = [compare(tie) for tie in all_ties()]
    same = STATEMENTS.read_text(encoding="utf-8") == exported()
    if as_json:
        print_json({"ties": [each.to_json() for each in found], "statements": same})
    else:
        click.echo(ties_table(found))
        click.echo(f"statements.json is {'what' if same else 'NOT what'} the sources state")
    return same and all(each.ok for each in found)


def _theorems(as_json: bool) -> None:
    """Checks every theorem; one that fails is an error, and its exit code 1."""
    found = check_theorems()
    if as_json:
        print_json({"theorems": [asdict(one) for one in found]})
        return
    for one in found:
        click.echo(f"{one.file}.{one.name}\n  {one.statement}")
    click.echo(f"{len(found)} theorems checked; they rest on the axioms of the real numbers alone")
