"""How many of the cases that it was asked a kernel served, and which families it left out.

A kernel may decline a case, and that is no failure. A kernel that declines all but the trivial ones
is then right wherever it answers, so every report says beside the verdict what it rests on. A case
without an answer, whatever the reason, is not served. Cases are told apart by their ids; one that
was declined, or had no answer, under any contract counts as that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dmverify.conformance.verdict import HARNESS, RUN, SUPPORT, Finding

NAMED = 4  # families that a line names; the rest are counted


@dataclass(frozen=True)
class Declined:
    """A family of which cases were declined.

    Attributes:
        family: Its name.
        asked: Number of its cases.
        declined: How many of them were declined.
        reason: Why the first one was.
    """

    family: str
    asked: int
    declined: int
    reason: str


@dataclass(frozen=True)
class Served:
    """What was served of what was asked.

    Attributes:
        asked: Number of cases.
        served: How many of them the kernel answered.
        declined: Families with declined cases, in the order of the run.
        unanswered: How many the kernel did not decline, and gave no answer to.
    """

    asked: int
    served: int
    declined: tuple[Declined, ...] = ()
    unanswered: int = 0

    @property
    def fraction(self) -> float:
        """Served over asked, 1 if nothing was asked."""
        return self.served / self.asked if self.asked else 1.0

    def __str__(self) -> str:
        whole = {row.family: 0 for row in self.declined if row.declined == row.asked}
        part = {row.family: 0 for row in self.declined if row.declined < row.asked}
        said = [_named("declined", list(whole)), _named("declined in part", list(part))]
        said += [f"{self.unanswered} without an answer"] if self.unanswered else []
        words = "; ".join(text for text in said if text)
        return f"{self.served} of {self.asked} cases" + (f" ({words})" if words else "")


def served(findings: Iterable[Finding]) -> Served:
    """Counts the cases of some findings."""
    asked: dict[str, set[str]] = {}
    declined: dict[str, dict[str, str]] = {}
    broken: set[str] = set()
    for finding in findings:
        family = finding.case.partition("/")[0]
        asked.setdefault(family, set()).add(finding.case)
        if finding.check == SUPPORT:
            declined.setdefault(family, {})[finding.case] = finding.reason
        elif finding.check in (RUN, HARNESS):
            broken.add(finding.case)
    rows = tuple(
        Declined(family, len(asked[family]), len(reasons), next(iter(reasons.values())))
        for family, reasons in declined.items()
    )
    broken -= {case for reasons in declined.values() for case in reasons}
    total = sum(map(len, asked.values()))
    left = total - sum(row.declined for row in rows) - len(broken)
    return Served(total, left, rows, len(broken))


def _named(word: str, families: list[str]) -> str:
    more = len(families) - NAMED
    named = ", ".join(families[:NAMED] if more > 1 else families)
    return f"{word}: {named}" + (f" and {more} more families" if more > 1 else "") if named else ""
