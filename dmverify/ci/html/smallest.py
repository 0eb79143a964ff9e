"""The smallest input on which a check fails: where to begin with a debugger.

Of the cases that a report holds, not of all there are; ``dmverify attack`` and ``replay`` go on
from there.
"""

from __future__ import annotations

from dataclasses import dataclass

from dmverify.conformance.families import problem_of
from dmverify.conformance.report.document import CheckRow, Document
from dmverify.errors import DmverifyError


@dataclass(frozen=True)
class Smallest:
    """A case.

    Attributes:
        case: Its id.
        sizes: Its lengths, heads and channels in words.
        numbers: In each of its inputs and outputs, the sum.
        repeat: The line that asks it again; empty where the report does not tell its contract.
    """

    case: str
    sizes: str
    numbers: int
    repeat: str


def smallest(document: Document, row: CheckRow) -> Smallest | None:
    """The smallest failing case of a check; None where no case of it can be made here.

    Args:
        document: A report.
        row: One of its checks.
    """
    failing = (
        case.id
        for subject in document.subjects
        if subject.kernel == row.kernel
        for case in subject.cases
        if (margin := case.margins.get(row.id)) is not None and margin > 1
    )
    found = [one for case_id in failing if (one := _sized(document, row, case_id)) is not None]
    return min(found, key=lambda one: one.numbers, default=None)


def _sized(document: Document, row: CheckRow, case_id: str) -> Smallest | None:
    try:
        problem = problem_of(case_id)
    except DmverifyError:  # of another version, or of a file that is not here
        return None
    one_contract = len(document.contracts) == 1 and row.repro.count(row.worst.case) == 1
    return Smallest(
        case_id,
        f"{problem.queries} queries, {problem.keys} keys, {problem.head_dim} channels, "
        f"{problem.heads} heads over {problem.kv_heads}, batch {problem.batch}, "
        f"{'causal' if problem.causal else 'no mask'}",
        problem.batch
        * problem.head_dim
        * (problem.heads * problem.queries + problem.kv_heads * problem.keys),
        row.repro.replace(row.worst.case, case_id) if one_contract else "",
    )
