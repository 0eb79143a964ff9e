"""The tables of a report as texts, cell by cell; a console or a notebook draws them.

Cells are as they were found: whoever draws them makes them fit to show.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dmverify.conformance.report.phrases import what, where
from dmverify.conformance.verdict import Verdict

if TYPE_CHECKING:
    from dmverify.conformance.report.errors import Errors
    from dmverify.conformance.report.report import Report, Summary

CHECK_HEADS = ("check", "verdict", "margin", "cases", "values", "open", "worst")
ERROR_TITLE = "error from attention in float64, and from the contract"
ERROR_HEADS = (
    "output",
    "median",
    "largest",
    "worst element",
    "ulp",
    "from contract",
    "case of the largest",
)
FAILURE_HEADS = ("fails", "case", "where", "what", "repeat")
WORDS = {
    Verdict.CONFORMS: "conforms",
    Verdict.FAILS: "does not conform",
    Verdict.INDETERMINATE: "gives what nothing decides",
    Verdict.UNSUPPORTED: "nothing was judged",
    Verdict.ERROR: "could not be judged",
    Verdict.TIMEOUT: "gave no answer in time",
}


def check_row(summary: Summary) -> tuple[str, ...]:
    """A check over all cases, under ``CHECK_HEADS``."""
    return (
        summary.id,
        summary.verdict.value + (" (expected)" if _expected(summary) else ""),
        number_text(summary.margin),
        str(summary.cases),
        str(summary.judged),
        str(summary.open) if summary.open else "",
        _worst(summary),
    )


def error_row(output: str, errors: Errors) -> tuple[str, ...]:
    """How wrong an output is, under ``ERROR_HEADS``."""
    numbers = (errors.median, errors.largest, errors.worst, errors.ulp, errors.contract)
    return (output, *map(number_text, numbers), errors.case)


def failure_row(summary: Summary) -> tuple[str, ...]:
    """A check that fails, under ``FAILURE_HEADS``."""
    worst = summary.worst
    at = where(worst.pattern) if worst.pattern else str(worst.worst or "")
    is_so = what(worst.pattern) if worst.pattern else worst.reason
    return (summary.id, worst.case, at, is_so, summary.repro)


def last_line(report: Report) -> tuple[str, str]:
    """The verdict, and what it rests on."""
    judged = sum(summary.judged for summary in report.checks)
    on = "on" if report.ok else "in a run that served"
    on = "so far, as Ctrl-C ended the run that served" if report.interrupted else on
    return (
        f"{report.kernel}: {WORDS[report.verdict]}",
        f"{on} {report.served}, {judged} values compared",
    )


def number_text(number: float) -> str:
    """Three digits; empty where nothing was measured."""
    return "" if math.isnan(number) else f"{number:.3g}"


def _worst(summary: Summary) -> str:
    worst = summary.worst
    if summary.verdict in (Verdict.UNSUPPORTED, Verdict.INDETERMINATE):
        return worst.reason
    if worst.worst is None:
        return ""
    return f"{worst.case} {worst.worst.output}{list(worst.worst.index)}"


def _expected(summary: Summary) -> bool:
    """Whether its worst finding, which comes last among expected ones, was expected."""
    return bool(summary.worst.expected)
