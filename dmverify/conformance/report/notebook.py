"""A result as HTML tables, which notebooks show (``_repr_html_``); no style, script or request.

Every cell is text from outside made fit to show (``words``) and then escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from dmverify.conformance.report.rows import (
    CHECK_HEADS,
    ERROR_HEADS,
    ERROR_TITLE,
    FAILURE_HEADS,
    check_row,
    error_row,
    failure_row,
    last_line,
)
from dmverify.conformance.verdict import FAILURES
from dmverify.conformance.words import printable

if TYPE_CHECKING:
    from dmverify.conformance.report.report import Report


def report_html(report: Report) -> str:
    """A report: what was judged, check by check, errors, failures, notes, the verdict."""
    checks = report.checks
    failed = [one for one in checks if one.verdict in FAILURES and not one.follows]
    wrong = [(one.id, one.errors) for one in checks if one.errors is not None]
    parts = [
        *(
            paragraph(
                one.kernel,
                f" under contract {one.contract}," * bool(one.contract),
                f" judged by {one.judged_by}",
            )
            for one in report.subjects
        ),
        table_html(CHECK_HEADS, map(check_row, checks)),
        table_html(ERROR_HEADS, (error_row(*one) for one in wrong), title=ERROR_TITLE),
        table_html(FAILURE_HEADS, map(failure_row, failed)),
        *(paragraph("warning: ", one) for one in report.warnings),
        *(paragraph("note: ", one) for one in report.notes),
        f"<p><b>{_text(last_line(report)[0])}</b> {_text(last_line(report)[1])}</p>",
    ]
    return "\n".join(part for part in parts if part)


def table_html(heads: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> str:
    """A table; nothing without rows.

    Args:
        heads: Names of the columns.
        rows: Cells, as many as heads.
        title: What stands above it.
    """
    body = ["".join(f"<td>{_text(cell)}</td>" for cell in row) for row in rows]
    if not body:
        return ""
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in heads)
    caption = f"<caption>{_text(title)}</caption>" if title else ""
    lines = "\n".join(f"<tr>{row}</tr>" for row in body)
    return f"<table>{caption}\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}\n</tbody></table>"


def paragraph(*texts: str) -> str:
    """A paragraph of texts."""
    return f"<p>{''.join(map(_text, texts))}</p>"


def _text(text: str) -> str:
    return escape(printable(text))
