"""The human index: results as a table in plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from dmverify.proofs.runner import LemmaResult
from dmverify.proofs.ties import Comparison

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


def ties_table(found: Sequence[Comparison]) -> str:
    """One line a tie: code over theorem, the least and the largest ratio."""
    lines = ["", f"{'bound':36} {'theorem':22} {'least':>12} {'largest':>12}  code"]
    for each in found:
        ratios = f"{each.ratios.min():12.9f} {each.ratios.max():12.9f}"
        mark = "" if each.ok else "FAILS  "
        lines.append(f"{each.tie.bound:36} {each.tie.theorem:22} {ratios}  {mark}{each.tie.code}")
    good = sum(each.ok for each in found)
    return "\n".join((*lines, f"{good} of {len(found)} bounds have their theorem's right side"))
