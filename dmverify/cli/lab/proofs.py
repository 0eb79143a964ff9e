"""``dmverify lab``: theory, sabotage and proof-objects."""

from __future__ import annotations

import click

from dmverify.proofs import positivity_search
from dmverify.proofs.sabotage import caught_by, edits, get_edit
from dmverify.proofs.theory import write
from dmverify.studies.bounds.attained import attained


@click.command()
def theory() -> None:
    """Write docs/theory and the exported statements, from the proofs and the code."""
    shares = [(one.contract, one.share, one.share_of_terms) for one in attained()]
    for path in write(shares):
        click.echo(path)


@click.command()
@click.argument("names", nargs=-1, metavar="[EDIT]...")
@click.pass_context
def sabotage(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Apply EDIT, or all, to a copy of the package; exit code 1 if one passes unnoticed."""
    unnoticed = 0
    for edit in map(get_edit, names) if names else edits():
        by = caught_by(edit)
        unnoticed += not by
        click.echo(f"{edit.id}: {edit.kind}: {by or 'PASSES UNNOTICED'}")
    ctx.exit(1 if unnoticed else 0)


@click.command()
def proof_objects() -> None:
    """Find the proof objects of ten lemmas; they are checked without a solver."""
    for path in positivity_search.write():
        click.echo(path)
