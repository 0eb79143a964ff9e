"""A report for people: one row a check, and under the table every failure in full.

The text goes to the console that the caller passes in; nothing is printed by itself.
"""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table

from dmverify.conformance.report.failures import STYLES, WORDS, also, causes, escape, failure
from dmverify.conformance.report.report import FAILURES, Report, Summary
from dmverify.conformance.verdict import Verdict


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
    for name, side in (("check", "left"), ("verdict", "left"), ("margin", "right")):
        table.add_column(name, justify=side, no_wrap=True)  # type: ignore[arg-type]
    for name in ("cases", "values", "open"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("worst", overflow="fold")
    for summary in report.checks:
        style = STYLES[summary.verdict]
        table.add_row(
            summary.id,
            f"[{style}]{summary.verdict.value}[/]" + (" (expected)" if _expected(summary) else ""),
            margin_text(summary.margin),
            str(summary.cases),
            str(summary.judged),
            str(summary.open) if summary.open else "",
            escape(_worst(summary)),
        )
    return table


def _accuracy(report: Report) -> Table:
    """How wrong each output is, beside what its contract allows."""
    table = Table(box=None, pad_edge=False, title_justify="left")
    table.title = "error from attention in float64, and from the contract"
    for name in ("output", "median", "largest", "worst element", "ulp", "from contract"):
        table.add_column(name, justify="left" if name == "output" else "right", no_wrap=True)
    table.add_column("case of the largest", overflow="fold")
    for summary in report.checks:
        if (errors := summary.errors) is not None:
            numbers = (errors.median, errors.largest, errors.worst, errors.ulp, errors.contract)
            table.add_row(summary.id, *map(margin_text, numbers), escape(errors.case))
    return table


def margin_text(margin: float) -> str:
    """Three digits; empty where nothing was measured."""
    return "" if math.isnan(margin) else f"{margin:.3g}"


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


def _verdict(report: Report) -> str:
    """Its last line; what conforms on a part of the cases only does not look like the whole."""
    judged = sum(summary.judged for summary in report.checks)
    partly = report.ok and report.served.served < report.served.asked
    style = STYLES[Verdict.UNSUPPORTED if partly else report.verdict]
    words = f"{escape(report.kernel)}: {WORDS[report.verdict]}"
    on = "on" if report.ok else "in a run that served"
    on = "so far, as Ctrl-C ended the run that served" if report.interrupted else on
    return f"[{style}]{words}[/] {on} {escape(str(report.served))}, {judged} values compared"
