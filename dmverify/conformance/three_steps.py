"""Generate, run, check: three steps that need not happen on one machine.

| step | needs | leaves |
|---|---|---|
| generate | nothing | a list of cases: ids and contracts, one JSON object a line (``questions``) |
| run | the kernel and its GPU, no network | a recording: what was asked, outputs, what made them |
| check | a CPU | a report |

Every question is examined before the first one is asked. An interrupted run goes on where it
stopped (``journal``). What the kernel does is recorded; what fails on the judge's side, such as a
full disk, ends the run instead, is recorded nowhere, and is asked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from dmverify import __version__
from dmverify.conformance.adapter import Kernel, describe, require_unnamed
from dmverify.conformance.events import Listener, RunStarted, ignore
from dmverify.conformance.families import generate, parse_case_id
from dmverify.conformance.journal import Journal
from dmverify.conformance.pipeline import announced, each
from dmverify.conformance.questions import examine
from dmverify.conformance.session import Session
from dmverify.conformance.specification import specification_hash
from dmverify.conformance.verdict import RUN, SUPPORT, Finding, Verdict
from dmverify.conformance.words import printable
from dmverify.errors import (
    DmverifyError,
    HarnessError,
    InputError,
    KernelTimeoutError,
    NothingRanError,
    RecordingError,
)
from dmverify.spec.case import Outputs
from dmverify.spec.recording import (
    Key,
    Question,
    Recording,
    Unanswered,
    contract_text,
    contract_texts,
    still_says,
)

# What a word of a recording is called, and which check says it.
FINDINGS = {
    "unsupported": (SUPPORT, Verdict.UNSUPPORTED),
    "error": (RUN, Verdict.ERROR),
    "timeout": (RUN, Verdict.TIMEOUT),
}


def run_cases(
    kernel: Kernel, asked: Sequence[Key], *, emit: Listener = ignore, out: Path | None = None
) -> Recording:
    """The second step: the kernel's outputs, unjudged.

    Args:
        kernel: What to run.
        asked: Cases and contracts.
        emit: Called with each event.
        out: Directory of the recording, written case by case; None writes nothing.

    Raises:
        NothingRanError: If no case has an answer.
        InputError: If a question cannot be asked, if the directory holds something else than the
            journal of a run of this kernel, or for a kernel that answers by id.
        HarnessError: If something failed that is not the kernel's.
    """
    info = describe(kernel)
    require_unnamed(kernel, info.kernel)
    questions = examine(asked)
    texts = contract_texts(question.key for question in questions)
    with (
        nullcontext(_Memory()) if out is None else Journal(out.absolute(), info, questions, texts)
    ) as kept:
        _ask_all(kernel, questions, kept, emit)
        recording = Recording(
            describe(kernel),
            questions,
            kept.answers,
            kept.unanswered,
            texts,
            __version__,
            specification_hash(),
        )
        if not recording.answers:
            reasons = [one.reason for one in kept.unanswered.values()]
            raise NothingRanError(
                f"{len(questions)} cases",
                rule="a recording holds at least one answer",
                fix=reasons[0] if reasons else "name a case",
            )
        kept.finish(recording)
    return recording


class _Memory:
    """What a journal is to a run that writes nothing."""

    def __init__(self) -> None:
        self.answers: dict[Key, Outputs] = {}
        self.unanswered: dict[Key, Unanswered] = {}

    def knows(self, key: Key) -> bool:
        return key in self.answers or key in self.unanswered

    def answer(self, question: Question, outputs: Outputs) -> None:
        self.answers[question.key] = outputs

    def note(self, question: Question, unanswered: Unanswered) -> None:
        self.unanswered[question.key] = unanswered

    def finish(self, recording: Recording) -> None:
        pass


def _ask_all(
    kernel: Kernel, questions: Sequence[Question], kept: Journal | _Memory, emit: Listener
) -> None:
    """Asks what the journal does not know; nothing is judged, so there are no findings."""
    work = ((one.case_id, _asked(kernel, one, kept)) for one in questions)
    with announced(RunStarted(describe(kernel).kernel, "", len(questions)), emit):
        for _ in each(work, emit):
            pass


def _asked(kernel: Kernel, question: Question, kept: Journal | _Memory) -> Iterator[Finding]:
    if not kept.knows(question.key):
        found = _ask(kernel, question)
        if isinstance(found, Outputs):
            kept.answer(question, found)
        else:
            kept.note(question, found)
    yield from ()


def _ask(kernel: Kernel, question: Question) -> Outputs | Unanswered:
    """The answer, or why there is none; a failure that is not the kernel's passes through."""
    session = Session(kernel, generate(question.case_id, contract=question.contract))
    try:
        declined = session.supports()
        if declined is not None:
            return Unanswered("unsupported", declined.reason)
        answer = session.backward()
    except HarnessError:
        raise
    except KernelTimeoutError as error:
        return Unanswered("timeout", printable(error))
    except DmverifyError as error:  # a session makes one of whatever a kernel raises
        return Unanswered("error", printable(error))
    if written := session.side_effects().written:
        return Unanswered("error", f"it wrote to {', '.join(written)}")
    return answer


def only(recording: Recording, cases: Sequence[str]) -> Recording:
    """The part of a recording that is about some cases, answered or not.

    Raises:
        InputError: If the recording was not asked one, or it is no case id.
    """
    wanted = [str(parse_case_id(case)) for case in cases]
    asked = tuple(question for question in recording.asked if question.case_id in wanted)
    known = {question.case_id for question in asked}
    for case in wanted:
        if case not in known:
            raise InputError(
                f"case {case!r}",
                rule="what is judged alone is a case of the recording",
                fix="leave --case out to see all",
            )
    return replace(recording, asked=asked)


def unanswered(recording: Recording, *, due: Iterable[Key] = ()) -> tuple[Finding, ...]:
    """One finding for every question that has no answer.

    Args:
        recording: What is judged.
        due: Questions that it should have been asked, by a list that the caller has.
    """
    found = []
    for question in recording.asked:
        if question.key in recording.unanswered:
            said = recording.unanswered[question.key]
            check, verdict = FINDINGS[said.why]
            found.append(Finding(check, question.case_id, verdict, reason=said.reason))
        elif question.key not in recording.answers:
            reason = "it was asked, and the recording has neither an answer nor why there is none"
            found.append(Finding(RUN, question.case_id, Verdict.ERROR, reason=reason))
    asked = {question.key for question in recording.asked}
    reason = "the list has it, and the recording was not asked it"
    return (
        *found,
        *(Finding(RUN, key[0], Verdict.ERROR, reason=reason) for key in due if key not in asked),
    )


def compare_versions(recording: Recording) -> tuple[str, ...]:
    """A warning if another text of the specification made a recording.

    Raises:
        RecordingError: If a contract is not today what it was then.
    """
    for name, text in recording.contracts.items():
        if not still_says(name, text):
            raise RecordingError(
                f"contract {name}, which read {printable(text)} in dmverify {recording.version}",
                rule=f"it is judged by the contract of its time, and in dmverify {__version__} the "
                f"contract reads {contract_text(name)}",
                fix="check it with the version that recorded it, or record it again",
            )
    if recording.specification == specification_hash():
        return ()
    then, now = recording.specification[:12] or "unknown", specification_hash()[:12]
    return (
        f"recorded with the specification {then} of dmverify {recording.version}, judged with "
        f"{now} of {__version__}",
    )
