"""Lists of questions, and what is checked of each before it is asked.

A question is a case id and the name of a contract. A list is text, one JSON object a line, because
inputs regenerate from ids; it is all that a run has, so no answer is within a kernel's reach before
it is asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from dmverify.conformance.contracts import resolve_contract
from dmverify.conformance.families import generate, parse_case_id
from dmverify.conformance.families.generate import problem_of
from dmverify.conformance.selection import select_pairs
from dmverify.conformance.sizes import require_room
from dmverify.conformance.words import printable
from dmverify.errors import DmverifyError, InputError
from dmverify.files import TEXT, read_regular, write_atomically
from dmverify.spec.contracts import Contract, get_contract
from dmverify.spec.problem import Problem
from dmverify.spec.recording import Key, Question, digest_inputs

FIELDS = {"case", "contract"}


def list_asked(
    *,
    level: str = "smoke",
    contract: str | Contract = "bundled",
    seed: int = 0,
    cases: Sequence[str] = (),
) -> tuple[Key, ...]:
    """The first step: which cases, by which contract.

    Args:
        level: Level whose cases are taken.
        contract: The contract, its name or the path of its file.
        seed: First seed of the drawn cases.
        cases: Ids instead of a level; each is generated once to see that it exists.

    Raises:
        UnknownNameError: For a name that does not exist.
        InputError: For an id that does not follow the grammar, or a level without end.
    """
    name = resolve_contract(contract).name
    if cases:
        return tuple((generate(case_id, contract=name).id, name) for case_id in cases)
    return select_pairs(level, (name,), seed=seed)


def write_asked(asked: Iterable[Key], path: Path) -> None:
    """Writes the list, one JSON object a line."""
    lines = (json.dumps({"case": case, "contract": contract}) for case, contract in asked)
    write_atomically(path, "".join(f"{line}\n" for line in lines))


def read_asked(path: Path) -> tuple[Key, ...]:
    """Reads a list; every id in it comes back in its canonical form, each question once.

    Raises:
        InputError: If it is no plain file of a sensible size, or a line is no JSON object with case
            and contract, or names what does not exist; the message has its number.
    """
    try:
        lines = read_regular(path, largest=TEXT).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            path,
            rule=f"the list is a text file ({error})",
            fix="write the list with 'dmverify gen'",
        ) from error
    return tuple(dict.fromkeys(_key(path, n, line) for n, line in enumerate(lines, 1)))


def _key(path: Path, number: int, line: str) -> Key:
    try:
        row = json.loads(line)
        if not isinstance(row, dict) or row.keys() != FIELDS:
            raise ValueError("other fields")
        if not all(isinstance(text, str) for text in row.values()):
            raise ValueError("case and contract are texts")
        key = str(parse_case_id(row["case"])), str(row["contract"])
        require_canonical(key)
    except (ValueError, RecursionError, DmverifyError) as error:
        raise InputError(
            f"line {number} of {path}: {printable(line[:80])!r} ({printable(error)})",
            rule='every line is {"case": ..., "contract": ...}, and both exist',
            fix="make the list with 'dmverify gen'",
        ) from error
    return key


def require_canonical(key: Key) -> Problem:
    """The problem of a question whose case id is in its canonical form, without drawing inputs.

    Raises:
        InputError: For another form, sizes that do not fit, or more than there is memory for.
        UnknownNameError: For a family, variant, capture or contract that does not exist.
        ContractError: For a modifier that does not exist.
    """
    get_contract(key[1])
    return require_case(key[0])


def require_case(case_id: str) -> Problem:
    """The problem of a case id in its canonical form, under whatever contract.

    Raises:
        InputError, UnknownNameError: As for ``require_canonical``.
    """
    canonical = str(parse_case_id(case_id))
    if canonical != case_id:
        raise InputError(
            f"case {case_id!r}", rule="a case has one name, its canonical id", fix=canonical
        )
    problem = problem_of(case_id)
    require_room(problem, case_id)
    return problem


def examine(asked: Iterable[Key]) -> tuple[Question, ...]:
    """Every question with the hash of its inputs, each once: all are drawn before one is asked.

    Raises:
        InputError, UnknownNameError, ContractError: If one of them cannot be asked.
    """
    hashes: dict[str, str] = {}
    found = []
    for case_id, contract in dict.fromkeys(asked):
        require_canonical((case_id, contract))
        if case_id not in hashes:
            hashes[case_id] = digest_inputs(generate(case_id, contract=contract).inputs)
        found.append(Question(case_id, contract, hashes[case_id]))
    return tuple(found)
