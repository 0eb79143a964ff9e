"""A recording as a kernel: it answers the questions it was recorded on and no others.

Judging a recording is then judging a kernel, by the same checks and reports. An answer is judged
only if the case has the inputs today that the kernel was asked then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dmverify import __version__
from dmverify.conformance.adapter import Forward, Stored, Support, Supported, Unsupported
from dmverify.conformance.checks import Check
from dmverify.conformance.events import Listener, RunStarted
from dmverify.conformance.families import generate
from dmverify.conformance.pipeline import announced
from dmverify.conformance.runner import How, judge_cases
from dmverify.conformance.verdict import RUN, Finding, Verdict
from dmverify.errors import InputError
from dmverify.spec.case import Case, Outputs
from dmverify.spec.recording import Provenance, Recording, digest_inputs


class Recorded(Stored):
    """See ``dmverify.conformance.adapter.Kernel``.

    Args:
        recording: Whole outputs.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    @property
    def info(self) -> Provenance:
        """What made the recording."""
        return self._recording.producer

    @property
    def contract(self) -> str:
        """The contract of the first question."""
        return self._recording.asked[0].contract if self._recording.asked else ""

    def supports(self, case: Case) -> Support:
        """Recorded cases only."""
        found = (case.id, case.contract) in self._recording.answers
        return Supported() if found else Unsupported("the recording has no answer to this case")

    def forward(self, case: Case) -> Forward:
        """The recorded O and LSE."""
        outputs = self.backward(case)
        return Forward(outputs.o, outputs.lse)

    def backward(self, case: Case) -> Outputs:
        """The recorded outputs."""
        return self._recording.answers[case.id, case.contract]


def judge_recording(
    recording: Recording, *, checks: Iterable[Check], emit: Listener
) -> tuple[Finding, ...]:
    """Every answer of a recording, judged like a kernel's; see ``three_steps.unanswered``.

    Args:
        recording: Whole outputs.
        checks: Rows of the table of checks.
        emit: Called with each event.

    Raises:
        InputError: If a case id cannot be regenerated, or answers are parts or hashes.
        RecordingError: If an answer's file was changed since the recording was loaded.
    """
    if recording.parts or recording.hashes:
        raise InputError(
            f"a recording of {'parts' if recording.parts else 'hashes'} of outputs",
            rule="the checks judge whole outputs",
            fix="run 'dmverify verify recorded-bundled', which judges those that ship",
        )
    others: list[str] = []
    contracts = dict.fromkeys(contract for _, contract in recording.answers)
    how = How(tuple(checks), emit)
    started = RunStarted(recording.producer.kernel, ", ".join(contracts), len(recording.answers))
    with announced(started, emit):
        findings = tuple(judge_cases(Recorded(recording), _known(recording, others), how))
    return (*findings, *map(_other, others))


def _known(recording: Recording, others: list[str]) -> Iterator[Case]:
    """The answered cases one by one; ids of those that have other inputs here are put aside."""
    for question in recording.asked:
        if question.key in recording.answers:
            case = generate(question.case_id, contract=question.contract)
            if digest_inputs(case.inputs) == question.inputs:
                yield case
            else:
                others.append(case.id)


def _other(case_id: str) -> Finding:
    reason = (
        "it was asked with other inputs than this id gives here: the recording is made from other "
        f"draws, or by another version of the specification than dmverify {__version__}"
    )
    return Finding(RUN, case_id, Verdict.ERROR, reason=reason)
