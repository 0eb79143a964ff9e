"""Fills the template: one file without scripts, fonts or images from anywhere else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from dmverify.ci.html import charts, maps
from dmverify.ci.html.smallest import smallest
from dmverify.conformance.bounds import bounds
from dmverify.conformance.families import generate
from dmverify.conformance.report.document import CheckRow, Document
from dmverify.errors import DmverifyError, naming_extras
from dmverify.spec.contracts import get_contract
from dmverify.spec.ledger.ledger import CAST

HERE = Path(__file__).parent
LEDGER = ("row-sum", "row-sum-cast")  # checks whose bound is a ledger's: before and after the cast
LARGEST = 1 << 20  # scores of a case whose ledger is drawn: a second


@dataclass(frozen=True)
class Book:
    """The ledger of one case: the bound's terms, and the largest row sum beside it."""

    check: str
    case: str
    contract: str
    bars: tuple[charts.Bar, ...]
    margin: float


def render(document: Document) -> str:
    """The page.

    Args:
        document: A report.

    Raises:
        DependencyError: Without jinja2.
    """
    with naming_extras():
        import jinja2
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(
        report=document,
        charts=charts,
        maps=maps,
        matrix=maps.kills(document),
        smallest=smallest,
        style=(HERE / "style.css").read_text(encoding="utf-8"),
        failures=[row for row in document.checks if _stands_alone(row)],
        following=[row for row in document.checks if row.verdict == "fails" and row.follows],
        books=[book for row in document.checks if (book := _book(document, row))],
    )


def _stands_alone(row: CheckRow) -> bool:
    return row.verdict in ("fails", "error", "timeout") and not row.follows


def _book(document: Document, row: CheckRow) -> Book | None:
    """The ledger of a check's worst case, as the specification computes it for that case."""
    if row.id not in LEDGER or row.worst.element is None or row.margin is None:
        return None
    subject = next(one for one in document.subjects if one.kernel == row.kernel)
    try:
        terms = _terms(row.worst.case, subject.contract, cast=row.id == LEDGER[1])
    except DmverifyError:  # a case of another version, or inputs from a file that is not here
        return None
    return Book(row.id, row.worst.case, subject.contract, charts.bars(terms), row.margin)


def _terms(case_id: str, contract: str, *, cast: bool) -> list[tuple[str, float]]:
    case = generate(case_id, contract=contract)
    problem = case.problem
    if problem.batch * problem.heads * problem.queries * problem.keys > LARGEST:
        return []
    report = bounds(get_contract(contract), problem, inputs=case.inputs)
    rows = [row for row in report if row.strength == "ledger" and math.isfinite(row.largest)]
    return [(row.term, row.largest) for row in rows if cast or row.term != CAST]
