"""A report as GitHub shows it: annotations beside a run, and a step summary in Markdown.

An annotation is a line on stdout, ``::error title=...::message``; a line break in it is ``%0A``
(docs.github.com, "Workflow commands for GitHub Actions").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dmverify.ci.compare import Change, as_markdown
from dmverify.ci.html.charts import number
from dmverify.conformance.report.document import CheckRow, Document

BAD = ("fails", "error", "timeout")
MOST = 10  # annotations that GitHub shows of a step
MARKS = {"conforms": "✅", "fails": "❌", "error": "❌", "timeout": "❌"}


def error_lines(document: Document) -> Iterator[str]:
    """A line for each check that fails by itself, up to as many as GitHub shows."""
    for row in _failures(document)[:MOST]:
        title = f"{row.kernel}, {row.id}: {row.verdict}"
        lines = [f"case {row.worst.case}", _what(row), f"repeat: {row.repro}"]
        yield f"::error title={_property(title)}::{_data(chr(10).join(filter(None, lines)))}"


def summary(document: Document, changes: Sequence[Change] = (), notes: Sequence[str] = ()) -> str:
    """The step summary.

    Args:
        document: The report.
        changes: What changed since an older one.
        notes: What makes the two unlike.
    """
    served = document.served
    lines = [
        f"## {_mark(document.verdict)} {document.kernel}: {document.verdict}",
        "",
        f"{served.served} of {served.asked} cases served, level {document.level}, "
        f"seed {document.seed}, contract {document.contract or '-'}",
        "",
        *_table(document),
        *(line for row in _failures(document) for line in _failure(row)),
        *_causes(document),
        *(_compared(changes, notes) if changes else ()),
    ]
    return "\n".join(lines) + "\n"


def _failures(document: Document) -> list[CheckRow]:
    return [row for row in document.checks if row.verdict in BAD and not row.follows]


def _table(document: Document) -> Iterator[str]:
    yield "| check | verdict | margin | cases | median error | largest error |"
    yield "|---|---|---:|---:|---:|---:|"
    for row in document.checks:
        errors = ["", ""]
        if row.errors:
            errors = [number(row.errors.median), number(row.errors.largest)]
        cells = [row.id, f"{_mark(row.verdict)} {row.verdict}", number(row.margin), str(row.cases)]
        yield f"| {' | '.join([*cells, *errors])} |"


def _failure(row: CheckRow) -> Iterator[str]:
    yield from ("", f"### {row.id} on `{row.worst.case}`", "", _what(row), "")
    yield from ("```", row.repro, "```")


def _causes(document: Document) -> Iterator[str]:
    if document.causes:
        yield from ("", "### Likely causes", "")
    for place, cause in enumerate(document.causes, 1):
        yield f"{place}. {cause.words} ({cause.likeness:.0%} like {cause.fault})"


def _compared(changes: Sequence[Change], notes: Sequence[str]) -> Iterator[str]:
    worse = [change for change in changes if change.worse]
    yield from ("", f"### Compared with before: {len(worse)} worse", "")
    if worse:
        yield from as_markdown(worse)
    yield from (f"- {note}" for note in notes)


def _what(row: CheckRow) -> str:
    words = row.worst.pattern["words"] if row.worst.pattern else row.worst.reason
    element = row.worst.element
    if element is None:
        return str(words)
    at = f"{element.output}{list(element.index)} is {number(element.got) or 'NaN'}"
    return f"{words}; {at} where {number(element.expected) or 'NaN'} is due"


def _mark(verdict: str) -> str:
    return MARKS.get(verdict, "○")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
