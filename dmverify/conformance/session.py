"""How a kernel is asked: nothing to recognise a case by, nothing to spoil, and its conduct noted.

| a kernel that | meets |
|---|---|
| looks a case up by its name | a name that only says which numbers it holds |
| writes to its inputs or beside them | fenced copies, compared after the call (``guards``) |
| returns its inputs' memory, or changes an answer after returning it | a comparison of what it |
| | returned with a copy made at once |

Every call gets new memory. What can only answer by name, as a recording does, is a ``Stored`` one.
Not covered: a kernel that recognises numbers; cases drawn with a random seed are for that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from dmverify.conformance.adapter import Dumps, Forward, Kernel, Stored, Supported, Unsupported
from dmverify.conformance.apart import kernels_own
from dmverify.conformance.guards import LARGEST, Fenced, fence
from dmverify.conformance.words import printable, said
from dmverify.errors import AnswerError, DmverifyError, InputError, KernelError
from dmverify.spec.case import Case, Inputs, Internals, Outputs, require_float32, require_shape
from dmverify.spec.recording import digest


@dataclass(frozen=True)
class Conduct:
    """What a kernel did around its answers, in words; nothing if it behaved.

    Attributes:
        written: Inputs and surroundings that it wrote to, in a call or, from a thread, after it.
        aliased: Outputs that lie in the memory of an input.
        changed: Outputs that changed after they were returned.
    """

    written: tuple[str, ...] = ()
    aliased: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Returned:
    """An array that a kernel returned, and what it held at that moment."""

    call: str
    name: str
    array: np.typing.NDArray[np.generic]
    kept: bytes


class Session:
    """All calls of a kernel for one case.

    Args:
        kernel: The kernel under test.
        case: The case, whose arrays no kernel sees.

    Attributes:
        second: What checks keep of second questions, so that each is asked once.
    """

    def __init__(self, kernel: Kernel, case: Case) -> None:
        self._kernel, self._case = kernel, case
        self._written: list[str] = []
        self._aliased: list[str] = []
        self._returned: list[_Returned] = []
        self._fences: list[Fenced] = []  # of past calls, while they are small
        self.second: dict[str, Any] = {}

    def supports(self) -> Unsupported | None:
        """None if the kernel serves the case.

        Raises:
            KernelError: If the kernel raises.
            AnswerError: If it says neither yes nor no.
        """
        return self._support(self._case)

    def forward(self) -> Forward:
        """A copy of the forward pass's answer.

        Raises:
            KernelError: If the kernel raises.
            AnswerError: If the answer has another form than it must.
        """
        answer = self._guarded("forward", self._kernel.forward, self._case)
        return _require_forward(answer, self._case)

    def backward(self, case: Case | None = None) -> Outputs:
        """A copy of every output, for the case or another one.

        Raises:
            KernelError: If the kernel raises.
            AnswerError: If the answer has another form than it must.
        """
        asked = self._case if case is None else case
        return _require_outputs(self._guarded("backward", self._kernel.backward, asked), asked)

    def internals(self) -> Internals | None:
        """A copy of what the kernel shows, None if it shows nothing, at all or of this case.

        Raises:
            KernelError: If the kernel raises.
            AnswerError: If it shows something else.
        """
        if not isinstance(self._kernel, Dumps):
            return None
        found = self._guarded("internals", self._kernel.internals, self._case)
        if found is not None and not isinstance(found, Internals):
            raise _not_an_answer("internals", found, Internals)
        return found

    def ask(self, case: Case) -> Outputs | Unsupported:
        """The answer to another case, which the kernel may not serve."""
        declined = self._support(case)
        return self.backward(case) if declined is None else declined

    def conduct(self) -> Conduct:
        """What was noted until now."""
        changed = [
            f"{one.name} of {one.call}"
            for one in self._returned
            if np.ascontiguousarray(one.array).tobytes() != one.kept
        ]
        late = [f"{text} (after a call)" for one in self._fences if (text := one.damage())]
        written = self._written or list(dict.fromkeys(late))
        return Conduct(tuple(written), tuple(self._aliased), tuple(dict.fromkeys(changed)))

    @property
    def kernel(self) -> Kernel:
        """The kernel under test."""
        return self._kernel

    def _support(self, case: Case) -> Unsupported | None:
        found = self._guarded("supports", self._kernel.supports, case)
        if not isinstance(found, (Supported, Unsupported)):
            raise AnswerError(
                f"supports gives {found!r:.40}",
                rule="supports gives Supported() or Unsupported(reason)",
                fix=f"return one of {Supported.__module__}",
            )
        return Unsupported(printable(found.reason)) if isinstance(found, Unsupported) else None

    def _guarded(self, call: str, function: Callable[[Case], object], case: Case) -> object:
        fences = [fence(name, array) for name, array in case.inputs.items()]
        question = anonymous(case, fences)
        if isinstance(self._kernel, Stored):
            question = replace(question, id=case.id)
        try:
            with kernels_own():
                answer = function(question)
        except (DmverifyError, KeyboardInterrupt):
            raise
        except BaseException as error:  # sys.exit(0) would end the run as a pass
            raise KernelError(
                f"{call} of {case.id} raised {said(error)}",
                rule="a kernel answers every case that it supports",
                fix=f"run it on that case alone, or say Unsupported; {call} is where it broke",
            ) from error
        self._written += [f"{text} ({call})" for one in fences if (text := one.damage())]
        if sum(one.memory.size for one in (*self._fences, *fences)) <= LARGEST:
            self._fences += fences
        return self._taken(call, answer, fences)

    def _taken(self, call: str, answer: object, fences: list[Fenced]) -> object:
        """A copy of an answer, of plain types; what it refers to is remembered.

        A subclass of an answer or of numpy's array may redefine what it is checked with.
        """
        kind = next((k for k in (Forward, Outputs, Internals) if isinstance(answer, k)), None)
        if kind is None:
            return answer
        copies: dict[str, Any] = {}
        for field in fields(kind):
            array = copies[field.name] = getattr(answer, field.name)
            if not isinstance(array, np.ndarray):
                continue
            array = np.asarray(array)
            if any(np.may_share_memory(array, one.memory) for one in fences):
                self._aliased.append(f"{field.name} of {call}")
            copies[field.name] = np.array(array)
            kept = copies[field.name].tobytes()
            self._returned.append(_Returned(call, field.name, array, kept))
        return kind(**copies)


def anonymous(case: Case, fences: list[Fenced]) -> Case:
    """The case as a kernel sees it: fenced tensors, and a name made from the numbers alone."""
    name = hashlib.sha256(f"{case.problem} {case.contract}".encode())
    for _, array in case.inputs.items():
        name.update(digest(array).encode())
    inputs = Inputs(**{one.name: one.view for one in fences})
    problem = replace(case.problem)  # its own: even what is frozen can be written to
    return Case(f"question/{name.hexdigest()[:16]}@0", case.contract, problem, inputs)


def _require_forward(answer: object, case: Case) -> Forward:
    if not isinstance(answer, Forward):
        raise _not_an_answer("forward", answer, Forward)
    shapes = case.problem.shapes()
    for name in ("o", "lse"):
        _checked(_require, name, getattr(answer, name), shapes[name])
    return answer


def _require_outputs(answer: object, case: Case) -> Outputs:
    if not isinstance(answer, Outputs):
        raise _not_an_answer("backward", answer, Outputs)
    _checked(answer.require, case.problem)
    return answer


def _require(name: str, array: Any, shape: tuple[int, ...]) -> None:
    require_float32(name, array)
    require_shape(name, array, shape)


def _checked(require: Callable[..., object], *args: object) -> None:
    """Calls a test of form; what it objects to is the kernel's answer."""
    try:
        require(*args)
    except InputError as error:
        raise AnswerError(error.value, rule=error.rule, fix=error.fix) from error


def _not_an_answer(call: str, value: object, kind: type) -> AnswerError:
    return AnswerError(
        f"{call} gives {type(value).__name__}",
        rule=f"{call} gives a {kind.__name__}",
        fix=f"return {kind.__module__}.{kind.__name__}",
    )
