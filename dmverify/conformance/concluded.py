"""What makes a report of what was found: notes of its parts, limits, expectations."""

from __future__ import annotations

from dataclasses import replace

from dmverify.conformance.expectations import apply_expectations
from dmverify.conformance.options import Options
from dmverify.conformance.report.report import Report


def concluded(report: Report, options: Options) -> Report:
    """The report with the notes of its subjects, and held to its limits.

    Args:
        report: What was found.
        options: What ``verify`` was called with.
    """
    notes = tuple(note for subject in report.subjects for note in subject.notes)
    held = replace(
        report,
        notes=(*report.notes, *notes),
        min_served=options.min_served,
        max_error=dict(options.max_error),
        interrupted=options.ctrl_c.pressed,
    )
    return held if options.expect is None else apply_expectations(held, options.expected)
