"""A report for people: one row a check, and under the table every failure in full.

The text goes to the console that the caller passes in; nothing is printed by itself.
"""

from __future__ import annotations

from typing import Literal

from rich.console import Console
from rich.table import Table

from dmverify.conformance.report.failures import STYLES, also, causes, escape, failure
from dmverify.conformance.report.report import Report
from dmverify.conformance.report.rows import (
    CHECK_HEADS,
    ERROR_HEADS,
    ERROR_TITLE,
    check_row,
    error_row,
    last_line,
)
from dmverify.conformance.verdict import FAILURES, Verdict


def show(report: Report, console: Console) -> None:
    """Writes the report to a console."""
    for subject in report.subjects:
        console.print(
            f"[bold]{escape(subject.kernel)}[/] "
            + (f"under contract [bold]{escape(subject.contract)}[/], " if subject.contract else "")
            + f"judged by {escape(subject.judged_by)}",
            soft_wrap=True,
        )
    console.print(_table(report))
    if any(summary.errors for summary in report.checks):
        console.print(_accuracy(report))
    for summary in report.checks:
        if summary.verdict in FAILURES and not summary.follows:
            failure(summary, console)
    for subject in report.subjects:
        also(report, subject, console)
        causes(subject, console)
    for subject in report.too_few:
        console.print(
            f"[{STYLES[Verdict.FAILS]}]too few cases served[/] by {escape(subject.kernel)}: "
            f"{escape(str(subject.served))}, where {report.min_served:g} of them are required",
            soft_wrap=True,
        )
    for summary in report.too_wrong:
        assert summary.errors is not None
        console.print(
            f"[{STYLES[Verdict.FAILS]}]too far from attention[/]: {summary.id} of "
            f"{escape(summary.kernel)} by {summary.errors.largest:.3g} in case "
            f"{escape(summary.errors.case)}, where {report.max_error[summary.id]:g} is allowed",
            soft_wrap=True,
        )
    for warning in report.warnings:
        console.print(f"[yellow]warning:[/] {escape(warning)}", soft_wrap=True)
    for note in report.notes:
        console.print(f"note: {escape(note)}", soft_wrap=True)
    console.print(_verdict(report), soft_wrap=True)


def _table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in CHECK_HEADS[:-1]:
        side: Literal["left", "right"] = "left" if name in ("check", "verdict") else "right"
        table.add_column(name, justify=side, no_wrap=True)
    table.add_column(CHECK_HEADS[-1], overflow="fold")
    for summary in report.checks:
        style = STYLES[summary.verdict]
        name, verdict, *rest = map(escape, check_row(summary))
        table.add_row(name, f"[{style}]{verdict}[/]", *rest)
    return table


def _accuracy(report: Report) -> Table:
    """How wrong each output is, beside what its contract allows."""
    table = Table(box=None, pad_edge=False, title=ERROR_TITLE, title_justify="left")
    for name in ERROR_HEADS[:-1]:
        table.add_column(name, justify="left" if name == "output" else "right", no_wrap=True)
    table.add_column(ERROR_HEADS[-1], overflow="fold")
    for summary in report.checks:
        if summary.errors is not None:
            table.add_row(*map(escape, error_row(summary.id, summary.errors)))
    return table


def _verdict(report: Report) -> str:
    """Its last line; what conforms on a part of the cases only does not look like the whole."""
    partly = report.ok and report.served.served < report.served.asked
    style = STYLES[Verdict.UNSUPPORTED if partly else report.verdict]
    words, rest = last_line(report)
    return f"[{style}]{escape(words)}[/] {escape(rest)}"
