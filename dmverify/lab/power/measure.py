"""The smallest size of a planted error that a check rejects, and why none is.

Sizes are the stated one times powers of two. The stated size is tried on every case of a family;
where it is rejected, it is halved until it is not, and where it is rejected nowhere, doubled. A
check that rejects a right answer has not seen the error: that is a fault of ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dmverify.conformance.adapter import Unsupported
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.runner import judge
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.errors import HarnessError
from dmverify.lab.power.deviation import Deviation, NothingToPlantError
from dmverify.lab.power.subject import Subject, of_answer

LEAST, MOST = -10, 20  # powers of two that the stated size is multiplied with
UNKNOWN = "no size is rejected"


@dataclass(frozen=True)
class Cell:
    """What one check notices of one error in one family.

    Attributes:
        doublings: The smallest size that is rejected is the stated one times this power of two;
            ``LEAST`` says that or less. None where none is rejected.
        case: Index of the case that rejects it.
        seen: On how many cases the stated size is rejected.
        tried: How many cases have a place for the error.
        reason: Why none is rejected.
    """

    doublings: int | None
    case: int = 0
    seen: int = 0
    tried: int = 0
    reason: str = ""


class Subjects:
    """Cases, each answered once a contract.

    Args:
        cases: Their ids.
    """

    def __init__(self, cases: Sequence[str]) -> None:
        self.cases = tuple(cases)
        self._known: dict[tuple[int, str], Subject] = {}

    def get(self, case: int, contract: str) -> Subject:
        """One case under one contract."""
        if (case, contract) not in self._known:
            self._known[case, contract] = Subject(self.cases[case], contract)
        return self._known[case, contract]


def measure(deviation: Deviation, judged_by: str, subjects: Subjects) -> Cell:
    """What a check notices of an error on some cases.

    Args:
        deviation: The error.
        judged_by: A key of ``JUDGES``.
        subjects: The cases.

    Raises:
        HarnessError: If a check rejects a right answer, or breaks.
    """
    contract = deviation.contract(judged_by)
    seen: list[int] = []
    unseen: list[int] = []
    reasons: list[str] = []
    for case in range(len(subjects.cases)):
        subject = subjects.get(case, contract)
        try:
            _require_place(deviation, subject)
            _require_right(deviation, subject)
            (seen if rejects(deviation, subject, 0) else unseen).append(case)
        except NothingToPlantError as error:
            reasons.append(str(error))
    tried = len(seen) + len(unseen)
    if seen:
        power = _halved(deviation, subjects.get(seen[0], contract))
        return Cell(power, seen[0], len(seen), tried)
    found = [_doubled(deviation, subjects.get(case, contract)) for case in unseen]
    powers = {power: case for power, case in zip(found, unseen, strict=True) if power is not None}
    if powers:
        return Cell(min(powers), powers[min(powers)], 0, tried)
    reasons += [_why(deviation, subjects.get(case, contract)) for case in unseen]
    return Cell(None, tried=tried, reason="; ".join(dict.fromkeys(reasons)))


def rejects(deviation: Deviation, subject: Subject, power: int) -> bool:
    """Whether the check of an error rejects the stated size times a power of two.

    Raises:
        NothingToPlantError: If there is no place for it, or the check says nothing of the case.
        HarnessError: If the check breaks.
    """
    size = deviation.stated * 2.0**power
    return _is_rejected(deviation, *_judged(deviation, subject, size))


def _require_place(deviation: Deviation, subject: Subject) -> None:
    if CHECKS[deviation.check].needs == "bits" and not subject.contract.bit_exact:
        raise NothingToPlantError("the contract leaves orders open, so there are no bits")
    declined = subject.kernel.supports(subject.case)
    if isinstance(declined, Unsupported):
        raise NothingToPlantError(f"the correct kernel declines: {declined.reason}")


def _require_right(deviation: Deviation, subject: Subject) -> None:
    """The right answer conforms; where the kernel is asked again, one with an error of size 0."""
    if CHECKS[deviation.check].needs == "kernel":
        finding, evidence = _judged(deviation, subject, 0.0)
    else:
        if deviation.check in subject.conforms:
            return
        evidence = of_answer(subject, subject.outputs)
        finding = judge(CHECKS[deviation.check], evidence)
    if _is_rejected(deviation, finding, evidence):
        raise HarnessError(
            f"{deviation.id}: the right answer to {subject.case.id} ({subject.contract.name})",
            rule="a right answer conforms",
            fix="find out whether check, kernel or plant is wrong",
        )
    subject.conforms.add(deviation.check)


def _judged(deviation: Deviation, subject: Subject, size: float) -> tuple[Finding, Evidence]:
    with np.errstate(all="ignore"):
        evidence = deviation.plant(subject, size)
        return judge(CHECKS[deviation.check], evidence), evidence


def _is_rejected(deviation: Deviation, finding: Finding, evidence: Evidence) -> bool:
    if finding.verdict in (Verdict.UNSUPPORTED, Verdict.INDETERMINATE):
        raise NothingToPlantError(finding.reason)
    if finding.verdict in (Verdict.ERROR, Verdict.TIMEOUT):
        raise HarnessError(
            f"{deviation.id} on {finding.case}: {finding.reason}",
            rule="a check judges every answer",
            fix="repair the check",
        )
    outside = finding.verdict is Verdict.FAILS
    if outside and deviation.term:
        return bool((evidence.ledger.margin(deviation.term) > 1).any())
    return outside


def _halved(deviation: Deviation, subject: Subject) -> int:
    """The margin, which an error makes about as large as it is, says where to look first."""
    if not deviation.doubles:
        return 0
    power = _guess(deviation, subject)
    while power < 0 and not rejects(deviation, subject, power):
        power += 1
    while power > LEAST and rejects(deviation, subject, power - 1):
        power -= 1
    return power


def _guess(deviation: Deviation, subject: Subject) -> int:
    finding, evidence = _judged(deviation, subject, deviation.stated)
    term = deviation.term
    margin = float(evidence.ledger.margin(term).max()) if term else finding.margin
    powers = -math.floor(math.log2(margin)) if 1 < margin < math.inf else 0
    return max(LEAST, powers)


def _doubled(deviation: Deviation, subject: Subject) -> int | None:
    if not deviation.doubles or not rejects(deviation, subject, MOST):
        return None
    return next(power for power in range(1, MOST + 1) if rejects(deviation, subject, power))


def _why(deviation: Deviation, subject: Subject) -> str:
    """What the check says of the largest error."""
    power = MOST if deviation.doubles else 0
    finding, _ = _judged(deviation, subject, deviation.stated * 2.0**power)
    return finding.reason or UNKNOWN
