"""Generate, run, check: three steps that need not happen on one machine.

| step | needs | leaves |
|---|---|---|
| generate | nothing | a list of cases: ids and contracts, one JSON object a line |
| run | the kernel and its GPU, no network | a recording: outputs and what made them |
| check | a CPU | a report |

The list is text because inputs regenerate from ids. Not covered: a kernel that answers only some of
the cases is recorded with those; the others are named in the recording's notes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from dmverify.conformance.adapter import Kernel, Unsupported
from dmverify.conformance.events import CaseDone, CaseStarted, Listener, RunDone, RunStarted, ignore
from dmverify.conformance.families import generate
from dmverify.conformance.selection import select
from dmverify.errors import InputError, NothingRanError
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
        InputError: For an id that does not follow the grammar.
    """
    name = get_contract(contract).name
    if cases:
        return tuple((generate(case_id, contract=name).id, name) for case_id in cases)
    return tuple((case.id, name) for case in select(level, name, seed=seed))


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


def run_cases(kernel: Kernel, asked: Sequence[Asked], *, emit: Listener = ignore) -> Recording:
    """The second step: the kernel's outputs, unjudged.

    Args:
        kernel: What to run.
        asked: Cases and contracts.
        emit: Called with each event.

    Raises:
        NothingRanError: If the kernel serves none of the cases.
    """
    emit(RunStarted(kernel.info.kernel, "", len(asked)))
    answers, notes = [], {}
    for number, (case_id, contract) in enumerate(asked, 1):
        emit(CaseStarted(case_id, number))
        case = generate(case_id, contract=contract)
        support = kernel.supports(case)
        if isinstance(support, Unsupported):
            notes[f"unsupported/{case_id} {contract}"] = support.reason
        else:
            outputs = kernel.backward(case).require(case.problem)
            answers.append(Answer(case.id, contract, outputs))
        emit(CaseDone(case_id))
    emit(RunDone())
    if not answers:
        raise NothingRanError(
            f"{len(asked)} cases",
            rule="a recording has an answer",
            fix=next(iter(notes.values()), "name a case"),
        )
    return Recording(kernel.info, tuple(answers), notes)
