"""Stored answers as a kernel, for checks that want to call one."""

from __future__ import annotations

import numpy as np

from dmverify.conformance.adapter import Forward, Stored, Support, Supported, Unsupported
from dmverify.errors import KernelError
from dmverify.lab.third_party.answers import Answers
from dmverify.spec.case import F32, Case, Outputs
from dmverify.spec.recording import Provenance

OUTPUTS = ("o", "lse", "dq", "dk", "dv")


class Replayed(Stored):
    """See ``dmverify.conformance.adapter.Kernel``; what was not kept of an answer is 0.

    Args:
        answers: Of one peer.
        prefix: Stands before a case's id in the answers.
    """

    def __init__(self, answers: Answers, *, prefix: str = "") -> None:
        self._answers, self._prefix = answers, prefix

    @property
    def contract(self) -> str:
        """The peer's."""
        return self._answers.contract

    @property
    def info(self) -> Provenance:
        """What answered."""
        made = self._answers.made_by
        return Provenance(
            kernel=self._answers.peer, compiler=made["versions"], device=made["device"]
        )

    def supports(self, case: Case) -> Support:
        """Whether an answer is there."""
        entry = self._answers.find(self._prefix + case.id)
        if entry is None:
            return Unsupported("no answer was stored")
        return Unsupported(entry.error) if entry.error else Supported()

    def forward(self, case: Case) -> Forward:
        """The stored O and LSE."""
        found = self.backward(case)
        return Forward(o=found.o, lse=found.lse)

    def backward(self, case: Case) -> Outputs:
        """The stored outputs.

        Raises:
            KernelError: If there is no answer.
        """
        support = self.supports(case)
        if isinstance(support, Unsupported):
            raise KernelError(case.id, rule=support.reason, fix="ask the peer again")
        return Outputs(**{name: self._output(case, name) for name in OUTPUTS})

    def _output(self, case: Case, name: str) -> F32:
        entry = self._answers.find(self._prefix + case.id)
        assert entry is not None
        if name not in entry.tensors:
            return np.zeros(case.problem.shapes()[name], np.float32)
        return self._answers.output(entry, name)
