"""Generate, run, check: three steps that need not happen on one machine.

| step | needs | leaves |
|---|---|---|
| generate | nothing | a list of cases: ids and contracts, one JSON object a line |
| run | the kernel and its GPU, no network | a recording: outputs and what made them |
| check | a CPU | a report |

The list is text because inputs regenerate from ids, and it is all that the run has: no answer is
within a kernel's reach before it is asked. A case without an answer is named in the recording's
notes with its verdict and the reason, and ``check`` reports both. An interrupted run goes on where
it stopped (``journal``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from dmverify.conformance.adapter import Kernel, describe, require_unnamed
from dmverify.conformance.apart import judging
from dmverify.conformance.events import CaseDone, CaseStarted, Listener, RunDone, RunStarted, ignore
from dmverify.conformance.families import generate, parse_case_id
from dmverify.conformance.journal import Journal
from dmverify.conformance.runner import RUN, SUPPORT, finding_of
from dmverify.conformance.selection import select_ids
from dmverify.conformance.session import Session
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.errors import InputError, NothingRanError
from dmverify.spec.case import Outputs
from dmverify.spec.contracts import get_contract
from dmverify.spec.recording import Answer, Recording

Asked = tuple[str, str]
"""A case id and the name of the contract that judges it."""


def list_asked(
    *, level: str = "smoke", contract: str = "bundled", seed: int = 0, cases: Sequence[str] = ()
) -> tuple[Asked, ...]:
    """The first step: which cases, by which contract.

    Args:
        level: Of which all cases are taken.
        contract: Name of the contract.
        seed: First seed of the drawn cases.
        cases: Ids instead of a level; each is generated once to see that it exists.

    Raises:
        UnknownNameError: For a name that does not exist.
        InputError: For an id that does not follow the grammar, or a level without end.
    """
    name = get_contract(contract).name
    if cases:
        return tuple((generate(case_id, contract=name).id, name) for case_id in cases)
    return tuple((case_id, name) for case_id in select_ids(level, seed=seed))


def write_asked(asked: Iterable[Asked], path: Path) -> None:
    """Writes the list, one JSON object a line."""
    lines = (json.dumps({"case": case, "contract": contract}) for case, contract in asked)
    path.write_text("".join(f"{line}\n" for line in lines))


def read_asked(path: Path) -> tuple[Asked, ...]:
    """Reads a list.

    Raises:
        InputError: If a line is no JSON object with case and contract; the message has its number.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, ValueError) as error:
        raise InputError(path, rule=f"the list is a text file ({error})", fix="gen it") from error
    asked = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            asked.append((str(row["case"]), str(row["contract"])))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"line {number} of {path}: {line[:80]!r}",
                rule='every line is {"case": ..., "contract": ...}',
                fix="make the list with 'dmverify gen'",
            ) from error
    return tuple(asked)


def run_cases(
    kernel: Kernel, asked: Sequence[Asked], *, emit: Listener = ignore, out: Path | None = None
) -> Recording:
    """The second step: the kernel's outputs, unjudged.

    Args:
        kernel: What to run.
        asked: Cases and contracts.
        emit: Called with each event.
        out: Directory of the recording, written case by case; None writes nothing.

    Raises:
        NothingRanError: If no case has an answer.
        InputError: If the directory holds something else than the journal of this run, or for a
            kernel that answers by id.
    """
    info = describe(kernel)
    require_unnamed(kernel, info.kernel)
    journal = None if out is None else Journal(out.absolute(), info, asked)
    emit(RunStarted(info.kernel, "", len(asked)))
    outputs = {} if journal is None else journal.outputs
    notes = {} if journal is None else journal.notes
    for number, key in enumerate(asked, 1):
        emit(CaseStarted(key[0], number))
        if journal is None or not journal.knows(key):
            with judging():
                _ask(kernel, key, number, outputs, notes, journal)
        emit(CaseDone(key[0]))
    emit(RunDone())
    answers = tuple(Answer(*key, outputs[key]) for key in dict.fromkeys(asked) if key in outputs)
    if not answers:
        raise NothingRanError(
            f"{len(asked)} cases",
            rule="a recording has an answer",
            fix=next(iter(notes.values()), "name a case"),
        )
    recording = Recording(describe(kernel), answers, dict(notes))
    if journal is not None:
        journal.finish(recording)
    return recording


def _ask(
    kernel: Kernel,
    key: Asked,
    number: int,
    outputs: dict[Asked, Outputs],
    notes: dict[str, str],
    journal: Journal | None,
) -> None:
    case_id, contract = key
    found = _answer(Session(kernel, generate(case_id, contract=contract)), case_id)
    if isinstance(found, Outputs):
        outputs[key] = found
        if journal is not None:
            journal.answer(key, number, found)
        return
    name = f"{found.verdict.value}/{case_id} {contract}"
    notes[name] = found.reason
    if journal is not None:
        journal.note(key, name, found.reason)


def _answer(session: Session, case_id: str) -> Outputs | Finding:
    try:
        declined = session.supports()
        if declined is not None:
            return Finding(SUPPORT, case_id, Verdict.UNSUPPORTED, reason=declined.reason)
        answer = session.backward()
    except Exception as error:
        return finding_of(error, RUN, case_id)
    if written := session.conduct().written:
        return Finding(RUN, case_id, Verdict.ERROR, reason=f"it wrote to {', '.join(written)}")
    return answer


def only(recording: Recording, cases: Sequence[str]) -> Recording:
    """The part of a recording that is about some cases, answered or not.

    Raises:
        InputError: If the recording has nothing of one, or it is no case id.
    """
    wanted = [str(parse_case_id(case)) for case in cases]
    notes = {name: reason for name, reason in recording.notes.items() if _case_of(name) in wanted}
    answers = tuple(answer for answer in recording.answers if answer.case_id in wanted)
    known = {answer.case_id for answer in answers} | {_case_of(name) for name in notes}
    for case in wanted:
        if case not in known:
            raise InputError(
                f"case {case!r}",
                rule="what is judged alone is a case of the recording",
                fix="leave --case out to see all",
            )
    return replace(recording, answers=answers, notes=notes)


def _case_of(note: str) -> str:
    """The case id in the name of a note ``verdict/case contract``."""
    return note.partition("/")[2].rpartition(" ")[0]


def unanswered(recording: Recording) -> tuple[Finding, ...]:
    """What the notes of a recording say about cases without an answer."""
    verdicts = {verdict.value: verdict for verdict in Verdict}
    found = []
    for name, reason in recording.notes.items():
        word = name.partition("/")[0]
        if word in verdicts:
            check = SUPPORT if verdicts[word] is Verdict.UNSUPPORTED else RUN
            found.append(Finding(check, _case_of(name), verdicts[word], reason=reason))
    return tuple(found)
