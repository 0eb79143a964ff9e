"""What a narrow fault is: a condition on a case, and what happens to the answer where it holds.

Everywhere else the kernel is a correct one, bit for bit. So whether a level rejects it is a
property of the level's cases, not of the checks: every harm here is gross where it can show at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dmverify.conformance.adapter import Forward, Kernel, Support
from dmverify.lab.mutants.narrow.harms import HARMS
from dmverify.spec.case import Case, Outputs
from dmverify.spec.problem import Problem
from dmverify.spec.recording import Provenance


@dataclass(frozen=True)
class Narrow:
    """One row.

    Attributes:
        id: Its name.
        what: The condition, in words.
        shape: Whether the problem meets it; cheap, so that no inputs are made in vain.
        harm: A key of ``HARMS``.
        pair: Whether one or two levels of the factors decide, so that smoke has to reject it.
        values: Whether the inputs (and the contract) meet it.
    """

    id: str
    what: str
    shape: Callable[[Problem], bool]
    harm: str
    pair: bool = False
    values: Callable[[Case], bool] = lambda case: True

    def holds(self, case: Case) -> bool:
        """Whether the kernel is wrong on this case."""
        return self.shape(case.problem) and self.values(case)


class Narrowed:
    """A correct kernel with one narrow fault.

    Args:
        base: The correct kernel.
        fault: When it is wrong, and how.
    """

    def __init__(self, base: Kernel, fault: Narrow) -> None:
        self._base, self._fault = base, fault
        self.contract = base.contract

    @property
    def info(self) -> Provenance:
        """The fault's name."""
        return Provenance(kernel=self._fault.id)

    def supports(self, case: Case) -> Support:
        """What the correct kernel serves."""
        return self._base.supports(case)

    def forward(self, case: Case) -> Forward:
        """O and LSE of ``backward``: both passes are wrong in the same way."""
        answer = self.backward(case)
        return Forward(answer.o, answer.lse)

    def backward(self, case: Case) -> Outputs:
        """The correct answer, harmed where the condition holds."""
        answer = self._base.backward(case)
        return HARMS[self._fault.harm](answer) if self._fault.holds(case) else answer
