"""A correct kernel's answer to one case, kept with all that it is judged by.

| judge | kernel | bounds |
|---|---|---|
| article | the simulation | intervals of every order |
| bundled | the emulator | the same, as if its bits were not known; ``bits`` alone compares bits |

Nothing but the planted error makes such an answer wrong, so what a check rejects is the error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from dmverify.conformance.adapter import Forward, Kernel, Support
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.emulator import Emulator
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.references import References
from dmverify.conformance.session import Session
from dmverify.spec.case import Case, Internals, Outputs
from dmverify.spec.contracts import Contract, get_contract
from dmverify.spec.recording import Provenance

JUDGES: dict[str, Callable[[], Simulation | Emulator]] = {
    "article": Simulation,
    "bundled": Emulator,
}
"""A correct kernel by the contract that it is judged by."""


class Remembered:
    """A kernel that computes each answer once (see ``dmverify.conformance.adapter.Kernel``)."""

    def __init__(self, kernel: Simulation | Emulator) -> None:
        self._kernel = kernel
        self._known: dict[tuple[str, str], Outputs] = {}
        self.contract: str = kernel.contract

    @property
    def info(self) -> Provenance:
        """What the kernel says it is."""
        return self._kernel.info

    def supports(self, case: Case) -> Support:
        """Serves what the kernel serves."""
        return self._kernel.supports(case)

    def forward(self, case: Case) -> Forward:
        """O and LSE of the whole answer."""
        outputs = self.backward(case)
        return Forward(outputs.o, outputs.lse)

    def backward(self, case: Case) -> Outputs:
        """The answer, in new memory; a session's names of cases tell their numbers."""
        key = (case.id, case.contract)
        if key not in self._known:
            self._known[key] = self._kernel.backward(case)
        return Outputs(**{name: array.copy() for name, array in self._known[key].items()})


class Subject:
    """One case under one contract.

    Args:
        case_id: Id of the case.
        contract: Name of a contract, with a mode or without.

    Attributes:
        conforms: Checks that have let the right answer pass.
        references: What any order may give, and the bits of a contract that states every order.
    """

    def __init__(self, case_id: str, contract: str) -> None:
        self.case: Case = generate(case_id, contract=contract)
        self.contract: Contract = get_contract(contract)
        self._kernel = JUDGES[self.contract.base]()
        self.kernel = Remembered(self._kernel)
        self.conforms: set[str] = set()
        self.references = References(self.case, use_bits=False)

    @cached_property
    def outputs(self) -> Outputs:
        """The right answer; not to be written to."""
        return self.kernel.backward(self.case)

    @cached_property
    def internals(self) -> Internals | None:
        """What the kernel had inside; None for a call without heads."""
        return self._kernel.internals(self.case)


def of_answer(
    subject: Subject,
    outputs: Outputs,
    *,
    internals: Internals | None = None,
    forward: Forward | None = None,
) -> Evidence:
    """Evidence of an answer that cannot be asked for again; what is not given is right.

    Args:
        subject: The case.
        outputs: What the kernel returned.
        internals: What it shows of its inside.
        forward: What the forward alone returned, if not the same.
    """
    return Evidence(
        subject.case,
        forward or Forward(outputs.o, outputs.lse),
        outputs,
        internals or subject.internals,
        use_bits=False,
        references=subject.references,
    )


def of_kernel(subject: Subject, kernel: Kernel) -> Evidence:
    """Evidence of a kernel that is asked, and may be asked again."""
    session = Session(kernel, subject.case)
    outputs = session.backward()
    return Evidence(
        subject.case,
        session.forward(),
        outputs,
        subject.internals,
        session=session,
        use_bits=False,
        references=subject.references,
    )
