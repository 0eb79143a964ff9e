"""Cases that somebody brought, found again by an id that is made from their content.

The id ``tensors/HASH@0`` says which numbers were asked, under which mask and scale; it says the
same for the same numbers from two files. Where they lie is kept here: of a file its path, and it is
read again whenever a case is asked, so that a run holds one case at a time; of arrays the arrays.
An id means something in a process in which its file or arrays were brought (``bring_file``,
``bring_case``), which is what ``--inputs`` does.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dmverify.conformance.tensor_files.groups import read_cases
from dmverify.conformance.tensor_files.source import Source, as_source
from dmverify.conformance.words import several
from dmverify.errors import InputError, UnknownNameError
from dmverify.spec.case import F32, Case, Inputs
from dmverify.spec.problem import Problem
from dmverify.spec.recording import digest_inputs

FAMILY = "tensors"
TARGETS = "whatever these numbers bring"
LETTERS = 16  # of the hash


@dataclass(frozen=True, eq=False)
class Kept:
    """What is known of a case that was brought.

    Attributes:
        problem: Sizes, mask, scale.
        source: The file; None for arrays of this process.
        answered: Names of the outputs that lie beside the inputs.
        read: Gives inputs, whether they have dO, and outputs.
    """

    problem: Problem
    source: Source | None
    answered: tuple[str, ...]
    read: Callable[[], tuple[Inputs, bool, Mapping[str, F32]]]


_SHELF: dict[str, Kept] = {}


def bring_file(source: Source) -> tuple[str, ...]:
    """Ids of the cases of a file, which ``brought_case`` then gives.

    Raises:
        InputError: As ``read_cases`` does.
    """
    found = []
    for one in read_cases(source):
        case_id = _id(one.problem, one.inputs, one.has_gradient)
        read = partial(_read_again, one.source, case_id)
        _SHELF[case_id] = Kept(one.problem, one.source, tuple(one.outputs), read)
        found.append(case_id)
    return tuple(dict.fromkeys(found))


def bring_case(case: Case) -> str:
    """The id of a case of this process, whatever it is called there."""
    if case.id in _SHELF:  # it was read from a file, and keeps its source
        return case.id
    case_id = _id(case.problem, case.inputs, case.backward)
    inputs, backward = case.inputs, case.backward
    _SHELF.setdefault(case_id, Kept(case.problem, None, (), lambda: (inputs, backward, {})))
    return case_id


def brought_case(case_id: str, contract: str) -> Case:
    """The case of an id.

    Raises:
        UnknownNameError: If nobody brought it.
        InputError: If its file is another by now.
    """
    kept = find(case_id)
    inputs, backward, _ = kept.read()
    return Case(case_id, contract, kept.problem, inputs, TARGETS, backward)


def brought_outputs(case_id: str) -> Mapping[str, F32]:
    """What lies beside the inputs as a kernel's answer, by name.

    Raises:
        UnknownNameError, InputError: As for ``brought_case``.
    """
    _, _, outputs = find(case_id).read()
    return outputs


def brought_ids() -> tuple[str, ...]:
    """Ids of everything that was brought."""
    return tuple(_SHELF)


def find(case_id: str) -> Kept:
    """What is known of an id.

    Raises:
        UnknownNameError: If nobody brought it.
    """
    if case_id not in _SHELF:
        raise UnknownNameError(
            f"case {case_id!r}",
            rule=f"a case {FAMILY}/... is one of a file that was named",
            fix="add --inputs FILE[:PREFIX], or pass the Case itself",
        )
    return _SHELF[case_id]


def can_be_brought(case_id: str) -> bool:
    """Whether another process can ask a case too: all but arrays of this one."""
    return case_id not in _SHELF or _SHELF[case_id].source is not None


def sources_of(case_ids: Sequence[str]) -> list[Source]:
    """The files in which these cases lie, each once; those of other families lie in none."""
    found = dict.fromkeys(_SHELF[one].source for one in case_ids if one in _SHELF)
    return [source for source in found if source is not None]


def words_for(case_ids: Sequence[str]) -> list[str]:
    """The options that bring these cases again."""
    return [word for source in sources_of(case_ids) for word in source.words()]


def _id(problem: Problem, inputs: Inputs, backward: bool) -> str:
    text = f"{problem} {backward} {digest_inputs(inputs)}"
    return f"{FAMILY}/{hashlib.sha256(text.encode()).hexdigest()[:LETTERS]}@0"


def _read_again(source: Source, case_id: str) -> tuple[Inputs, bool, Mapping[str, F32]]:
    """The numbers of a file, held to their id."""
    found = (one for one in read_cases(source) if one.source.prefix == source.prefix)
    one = next(found, None)
    if one is None or _id(one.problem, one.inputs, one.has_gradient) != case_id:
        raise InputError(
            f"{source.path}, which holds other numbers than when it was named",
            rule="a file of tensors stays as it is while it is judged",
            fix="run it again, on a copy if it is being written",
        )
    return one.inputs, one.has_gradient, one.outputs


def name_cases(
    cases: Sequence[str | Case], inputs: Sequence[str | os.PathLike[str] | Source]
) -> tuple[tuple[str, ...], str | None]:
    """What a caller asks, by id, and the contract that it brings.

    Args:
        cases: Ids, patterns of ids, and cases of the caller's own.
        inputs: Files, of which all cases are asked if ``cases`` has none.

    Returns:
        Ids, and the contract of the caller's own cases; None if there are none.

    Raises:
        InputError: For one text where several are due, for cases of several contracts, or as
            ``read_cases`` says.
    """
    cases, inputs = several("cases", cases), several("inputs", inputs)
    for case in cases:
        if not isinstance(case, (str, Case)):
            raise InputError(
                f"a case of type {type(case).__name__}",
                rule="cases are ids, patterns of ids, or objects of dmverify.spec.case.Case",
                fix="pass Case(id, contract, problem, Inputs(q=..., k=..., v=..., do=...))",
            )
    own = {case.contract for case in cases if isinstance(case, Case)}
    if len(own) > 1:
        raise InputError(
            f"cases of the contracts {', '.join(sorted(own))}",
            rule="cases of one call are judged by one contract",
            fix="name one with contract=, or make a call for each",
        )
    brought = tuple(case_id for one in inputs for case_id in bring_file(as_source(one)))
    ids = tuple(bring_case(case) if isinstance(case, Case) else case for case in cases)
    return ids or brought, own.pop() if own else None
