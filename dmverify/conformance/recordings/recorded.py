"""A recording as a kernel: it answers the cases it was recorded on and no others.

Judging a recording is then judging a kernel, by the same checks and reports.
"""

from __future__ import annotations

from collections.abc import Iterable

from dmverify.conformance.adapter import Forward, Stored, Support, Supported, Unsupported
from dmverify.conformance.checks import Check
from dmverify.conformance.events import Listener
from dmverify.conformance.families import generate
from dmverify.conformance.runner import run
from dmverify.conformance.verdict import Finding
from dmverify.spec.case import Case, Outputs
from dmverify.spec.recording import Producer, Recording


class Recorded(Stored):
    """See ``dmverify.conformance.adapter.Kernel``.

    Args:
        recording: Whole outputs.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._outputs = {(a.case_id, a.contract): a.outputs for a in recording.answers}

    @property
    def info(self) -> Producer:
        """What made the recording."""
        return self._recording.producer

    @property
    def contract(self) -> str:
        """The contract of the first answer."""
        return self._recording.answers[0].contract if self._recording.answers else ""

    def cases(self) -> Iterable[Case]:
        """The recorded cases, regenerated one by one from their ids."""
        return (generate(case, contract=contract) for case, contract in self._outputs)

    def supports(self, case: Case) -> Support:
        """Recorded cases only."""
        found = (case.id, case.contract) in self._outputs
        return Supported() if found else Unsupported("the recording has no answer to this case")

    def forward(self, case: Case) -> Forward:
        """The recorded O and LSE."""
        outputs = self.backward(case)
        return Forward(outputs.o, outputs.lse)

    def backward(self, case: Case) -> Outputs:
        """The recorded outputs."""
        return self._outputs[case.id, case.contract]


def judge_recording(
    recording: Recording, *, checks: Iterable[Check], emit: Listener
) -> tuple[Finding, ...]:
    """Every answer of a recording, judged like a kernel's.

    Args:
        recording: Whole outputs.
        checks: Rows of the table of checks.
        emit: Called with each event.

    Raises:
        InputError: If a case id cannot be regenerated.
    """
    recorded = Recorded(recording)
    return run(recorded, tuple(recorded.cases()), checks=checks, emit=emit)
