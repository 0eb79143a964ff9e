"""What failed, for people: every failure in full, what follows from it in a line, likely causes."""

from __future__ import annotations

from rich import markup
from rich.console import Console

from dmverify.conformance.accuracy import FRACTION_BITS as OUTPUTS
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.report.phrases import what, where
from dmverify.conformance.report.report import Report, Subject, Summary
from dmverify.conformance.report.rows import WORDS
from dmverify.conformance.report.served import NAMED
from dmverify.conformance.verdict import Verdict
from dmverify.conformance.words import visible

STYLES = {
    Verdict.CONFORMS: "green",
    Verdict.FAILS: "bold red",
    Verdict.INDETERMINATE: "cyan",
    Verdict.UNSUPPORTED: "yellow",
    Verdict.ERROR: "bold magenta",
    Verdict.TIMEOUT: "bold magenta",
}
ALIKE = 0.15  # a likeness below which nothing known looks like it


def failure(summary: Summary, console: Console) -> None:
    """One check that fails: on which case, where, what stands there, how to repeat it."""
    worst = summary.worst
    reason = "" if _plain(summary) else f": {worst.reason}"  # the next line says it
    console.print(
        f"[{STYLES[summary.verdict]}]{summary.id} {WORDS[summary.verdict]}[/] "
        f"in case {escape(worst.case + reason)}",
        soft_wrap=True,
    )
    for name, said in _lines(summary):
        console.print(f"  {name}: {escape(said)}", soft_wrap=True)


def _lines(summary: Summary) -> list[tuple[str, str]]:
    """Name and text of each line below the first; those without a text are left out."""
    worst, pattern, row = summary.worst, summary.worst.pattern, CHECKS.get(summary.id)
    lines = {
        "where": where(pattern) if pattern else "",
        "what": what(pattern) if pattern else "",
        "worst": str(worst.worst) if worst.worst else "",
        "allowed": worst.worst.allowed if worst.worst else "",
        "expected": worst.expected,
        "looks for": "" if _plain(summary) or not row else row.targets,
        "cases": _cases(summary) if summary.cases > 1 else "",
        "repeat": summary.repro,
    }
    if summary.verdict is not Verdict.FAILS:
        del lines["cases"]
    return [(name, said) for name, said in lines.items() if said]


def _plain(summary: Summary) -> bool:
    """Whether it is the failure of an output by its bound, which its pattern tells whole."""
    return (
        summary.id in OUTPUTS and summary.worst.pattern is not None and not summary.worst.expected
    )


def _cases(summary: Summary) -> str:
    more = len(summary.families) - NAMED
    named = summary.families[:NAMED] if more > 1 else summary.families
    rest = f" and {more} more families" if more > 1 else ""
    return f"fails on {summary.failed} of {summary.cases}, of {', '.join(named)}{rest}"


def also(report: Report, subject: Subject, console: Console) -> None:
    """A line for the checks that fail as others do, by what they follow from."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for summary in report.checks:
        if summary.kernel == subject.kernel and summary.follows:
            groups.setdefault(summary.follows, []).append(summary.id)
    for follows, ids in groups.items():
        many = "they follow" if len(ids) > 1 else "it follows"
        console.print(
            f"[{STYLES[Verdict.FAILS]}]also {'fail' if len(ids) > 1 else 'fails'}[/], as {many} "
            f"from {', '.join(follows)}: {', '.join(ids)}",
            soft_wrap=True,
        )


def causes(subject: Subject, console: Console) -> None:
    """What most likely is wrong: state for what fails after others only, else what is alike."""
    for case, before in subject.before.items():
        console.print(
            f"likely cause: state that other calls leave, since {escape(case)} conforms alone and "
            f"fails after {escape(', '.join(before))}",
            soft_wrap=True,
        )
    known = [cause for cause in subject.causes if cause.likeness >= ALIKE]
    if subject.causes and not known:
        console.print("likely causes: no known fault looks like this")
    if not known:
        return
    console.print(
        f"likely causes of what {escape(subject.kernel)} gives, by known faults that fail alike:",
        soft_wrap=True,
    )
    for number, cause in enumerate(known, 1):
        console.print(
            f"  {number}. {escape(cause.words)} ({cause.likeness:.0%} like {escape(cause.fault)})",
            soft_wrap=True,
        )


def escape(text: str) -> str:
    """A text as it is shown: no control characters, no markup."""
    return markup.escape(visible(text))
