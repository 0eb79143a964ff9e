"""The human index: results as a table in plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from dmverify.proofs.runner import LemmaResult

HEADINGS = ("lemma", "verdict", "control", "seconds", "proved by")


def table(results: Sequence[LemmaResult], *, width: int = 100) -> str:
    """One block per lemma: a line of verdicts, the statement, and details where all is not well.

    Args:
        results: What ``prove`` returned.
        width: Columns to wrap statements at.
    """
    lines = ["{:24} {:12} {:14} {:>7}  {}".format(*HEADINGS)]
    for result in results:
        means = ", ".join(result.solvers) or "-"
        lines.append(
            f"{result.id:24} {result.verdict:12} {result.control:14} {result.seconds:7.2f}  {means}"
        )
        lines += textwrap.wrap(result.statement, width, initial_indent="  ", subsequent_indent="  ")
        if result.detail:
            lines += textwrap.wrap(result.detail, width, initial_indent="  ! ")
    good = sum(result.ok for result in results)
    lines.append(f"{good} of {len(results)} proved by two means with their controls refuted")
    return "\n".join(lines)
