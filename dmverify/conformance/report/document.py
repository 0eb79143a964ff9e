"""``report.json`` as a published schema: what ``Report.write`` writes and ``compare`` reads.

``docs/schemas/report.json`` is its JSON Schema, generated from these records (a test compares).
``VERSION`` grows when a field changes its meaning or goes; new fields leave it as it is. Margins
and errors are null where nothing was measured, and at most the largest float64.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from dmverify.conformance.report.as_json import FORMAT, VERSION
from dmverify.conformance.schema import Count, Table, Text

VerdictWord = Literal["conforms", "fails", "indeterminate", "unsupported", "error", "timeout"]
Number = float | None
Names = Annotated[tuple[Text, ...], msgspec.Meta(max_length=100_000)]


class CountsRow(Table):
    """Cases asked and served, and the fraction that every subject had to serve."""

    asked: Count
    served: Count
    required: float


class DeclinedRow(Table):
    """A family of which cases were declined."""

    family: Text
    asked: Count
    declined: Count
    reason: Text


class ProvenanceRow(Table):
    """What a kernel says it is."""

    kernel: Text
    source: Text
    build: Text
    compiler: Text
    flags: Names
    device: Text
    driver: Text


class ErrorRow(Table):
    """How wrong one output of one case is: ``rms``, ``worst``, ``ulp`` from float64 attention."""

    rms: Number
    worst: Number
    ulp: Number
    contract: Number  # rms from what the contract computes


class CaseRow(Table):
    """One case: the verdict over all checks, the margin of each, the error of each output."""

    id: Text
    verdict: VerdictWord
    margins: dict[str, Number]
    errors: dict[str, ErrorRow]


class SubjectRow(Table):
    """What was judged in one part of a run."""

    kernel: Text
    contract: Text
    judged_by: Text
    asked: Count
    served: Count
    declined: tuple[DeclinedRow, ...]
    provenance: ProvenanceRow | None
    cases: tuple[CaseRow, ...]


class CauseRow(Table):
    """What most likely is wrong with a kernel."""

    kernel: Text
    id: Text
    words: Text
    fault: Text
    likeness: float


class ErrorsRow(Table):
    """The fields of ``report.errors.Errors``."""

    cases: Count
    median: Number
    largest: Number
    worst: Number
    ulp: Number
    contract: Number
    case: Text


class ElementRow(Table):
    """The fields of ``verdict.Element``."""

    output: Text
    index: tuple[int, ...]
    got: Number
    got_hex: Text
    expected: Number
    expected_hex: Text
    bound: Number
    lo: Number
    hi: Number
    margin: Number


class FindingRow(Table):
    """The finding of a check to look at first."""

    case: Text
    verdict: VerdictWord
    reason: Text
    expected: Text
    element: ElementRow | None
    pattern: dict[str, Any] | None


class CheckRow(Table):
    """The fields of ``report.report.Summary``."""

    id: Text
    kernel: Text
    verdict: VerdictWord
    margin: Number
    cases: Count
    judged: Count
    open: Count
    indeterminate: Count
    unsupported: Count
    expected: Count
    failed: Count
    families: Names
    follows: Names
    worst: FindingRow
    repro: Text
    errors: ErrorsRow | None


class Document(Table):
    """A whole report."""

    format: Literal["dmverify-report"]
    version: Literal[1]
    made_with: Text
    ok: bool
    verdict: VerdictWord
    kernel: Text
    contract: Text
    contracts: dict[str, Text]
    level: Text
    seed: int
    subjects: tuple[SubjectRow, ...]
    served: CountsRow
    coverage: dict[str, Count]
    max_error: dict[str, float]
    notes: Names
    warnings: Names
    interrupted: bool
    causes: tuple[CauseRow, ...]
    checks: tuple[CheckRow, ...]


def schema() -> dict[str, Any]:
    """Its JSON Schema (2020-12)."""
    made = msgspec.json.schema(Document)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{FORMAT} version {VERSION}",
        **made,
    }
