"""``dmverify list``: what there is, by name."""

from __future__ import annotations

from collections.abc import Callable

import click
from rich.markup import escape
from rich.table import Table

from dmverify.cli.list_coverage import show, summary_of
from dmverify.cli.output import console, json_option, print_json
from dmverify.conformance.captures import list_captures, load_capture
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.contracts import offered_contracts
from dmverify.conformance.families import list_families
from dmverify.conformance.kernels import KERNELS
from dmverify.conformance.recorded import offered_recordings
from dmverify.conformance.resolve import offered_kernels
from dmverify.errors import DependencyError, unknown_name
from dmverify.lab.recordings.replayed import unrecorded
from dmverify.lab.third_party.kernels import SUMMARIES
from dmverify.spec.contracts import CONTRACTS
from dmverify.studies import STUDIES

Rows = list[dict[str, object]]


def _contracts() -> Rows:
    rows: Rows = [{"name": c.name, "summary": c.summary} for c in CONTRACTS.values()]
    offered = offered_contracts().items()
    return rows + [{"name": name, "summary": f"offered by {p.value}"} for name, p in offered]


def _kernels() -> Rows:
    rows: Rows = [
        {"name": name, "summary": entry.summary, "judged_by": entry.judged}
        for name, entry in KERNELS.items()
    ]
    for name, point in offered_kernels().items():
        summary = SUMMARIES.get(name, f"offered as {point.value}")
        rows.append({"name": name, "summary": summary, "judged_by": "its contract"})
    recorded: Rows = [
        {"name": one.name, "summary": one.summary, "judged_by": one.by}
        for one in offered_recordings().values()
    ]
    return [*rows, *recorded]


def _checks() -> Rows:
    return [
        {
            "name": c.id,
            "targets": c.targets,
            "bound": c.bound,
            "section": c.section,
            "lemmas": list(c.lemmas),
        }
        for c in CHECKS.values()
    ]


def _families() -> Rows:
    return [
        {"name": f.name, "targets": f.targets, "variants": list(f.variants)}
        for f in list_families()
    ]


def _captures() -> Rows:
    return [{"name": name, "source": load_capture(name).source} for name in list_captures()]


def _studies() -> Rows:
    return [{"name": study.name, "summary": study.summary} for study in STUDIES.values()]


def _unrecorded() -> Rows:
    return [
        {"name": case, "contract": contract, "why": why or "not asked"}
        for (case, contract), why in unrecorded().items()
    ]


def _lemmas() -> Rows:
    from dmverify.proofs import CERTIFICATES, all_lemmas

    lemmas = [(lemma.id, lemma.statement) for lemma in all_lemmas()]
    certificates = [(entry.id, entry.statement) for entry in CERTIFICATES]
    return [{"name": name, "statement": text} for name, text in lemmas + certificates]


KINDS: dict[str, Callable[[], Rows]] = {
    "contracts": _contracts,
    "kernels": _kernels,
    "checks": _checks,
    "families": _families,
    "captures": _captures,
    "studies": _studies,
    "lemmas": _lemmas,
    "unrecorded": _unrecorded,
}
"""What can be listed, and how its rows are made."""


COVERAGE = "coverage"
"""What a level meets: not a list of names, and not shown with the others."""


@click.command()
@click.argument("kind", required=False)
@click.option(
    "--level",
    default="smoke",
    show_default=True,
    help="Level that 'list coverage' describes: smoke or full.",
)
@json_option
def command(kind: str | None, level: str, as_json: bool) -> None:
    """Show contracts, kernels, checks, families, captures, studies, lemmas or unrecorded cases.

    Without KIND everything; unrecorded is what an H200 has not answered. KIND coverage shows which
    combinations of shape, values and contract a level meets, and what it does not cover.
    """
    if kind == COVERAGE:
        _coverage(level, as_json)
        return
    if kind is not None and kind not in KINDS:
        raise unknown_name("kind", kind, (*KINDS, COVERAGE))
    chosen = _all() if kind is None else {kind: KINDS[kind]()}
    if as_json:
        print_json(chosen)
        return
    for name, rows in chosen.items():
        _show(name, rows)


def _all() -> dict[str, Rows]:
    """Every kind; one that needs what is not installed is left out, and stderr says so."""
    found: dict[str, Rows] = {}
    for name, rows in KINDS.items():
        try:
            found[name] = rows()
        except DependencyError as error:
            click.echo(f"{name} left out: {error}", err=True)
    return found


def _coverage(level: str, as_json: bool) -> None:
    summary = summary_of(level)
    if as_json:
        print_json({COVERAGE: summary.to_json()})
    else:
        show(summary, console())


def _show(name: str, rows: Rows) -> None:
    table = Table(title=f"{name} ({len(rows)})", title_justify="left", box=None, pad_edge=False)
    for key in rows[0] if rows else ():
        table.add_column(key, overflow="fold", no_wrap=key in ("name", "section"))
    for row in rows:
        table.add_row(*(escape(_text(value)) for value in row.values()))
    console().print(table)


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
