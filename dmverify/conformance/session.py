"""How a kernel is asked: nothing to recognise a case by, nothing to spoil, and its conduct noted.

| a kernel that | meets |
|---|---|
| looks a case up by its name | a name that only says which numbers it holds |
| writes to its inputs or beside them | guarded copies, compared after the call (``guards``) |
| returns its inputs' memory, or changes an answer after returning it | a comparison of what it |
| | returned with a copy made at once |

Every call gets new memory. Past calls are watched until the case ends while they are small together
(``WATCHED``); of larger ones, answers until the next call, and inputs and dumps until the call
returns. What can only answer by name, as a recording does, is a ``Stored`` one. A kernel in a
process of its own (``process``) is guarded there, by a session like this one, which says what it
noted.

A kernel is taken to be honest and perhaps wrong: it may write to what it was given, keep or change
what it returned, print, and leave another folder or floating-point environment behind. A kernel
that deceives its judge on purpose can do so where both share a process.
Not covered: a kernel that recognises numbers; cases drawn with a random seed are for that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from dmverify.conformance.adapter import Dumps, Forward, Kernel, Stored, Supported, Unsupported
from dmverify.conformance.apart import kernels_own
from dmverify.conformance.guards import GuardedArray, guard
from dmverify.conformance.kernels.surroundings import lacks, surrounded
from dmverify.conformance.process import ProcessKernel
from dmverify.conformance.words import describe_error, printable
from dmverify.errors import AnswerError, DmverifyError, InputError, KernelError
from dmverify.spec.attention.brought import hand_over
from dmverify.spec.case import SCALE, Case, Inputs, Internals, Outputs
from dmverify.spec.contracts import find_contract
from dmverify.spec.recording import digest
from dmverify.spec.widened import to_float32

GRADIENTS = ("dq", "dk", "dv")
WATCHED = 2**25  # bytes of past calls that are watched until the case ends


@dataclass(frozen=True)
class SideEffects:
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
    """An array that a kernel returned, and what it held at that moment.

    ``kept`` is a copy, or of a large answer a digest, as the copy is let go once it is judged.
    """

    call: str
    name: str
    array: np.typing.NDArray[np.generic]
    kept: np.typing.NDArray[np.generic] | str

    @property
    def changed(self) -> str:
        """Its name if it holds something else now, or nothing."""
        if isinstance(self.kept, str):
            same = digest(self.array) == self.kept
        else:
            same = np.array_equal(_bytes(self.array), _bytes(self.kept))
        return "" if same else f"{self.name} of {self.call}"


class Session:
    """All calls of a kernel for one case.

    Args:
        kernel: The kernel under test.
        case: The case, whose arrays no kernel sees.

    Attributes:
        calls: How often the kernel was called.
        second: What checks keep of second questions, so that each is asked once.
        lacks_gradients: Why the last answer has none, in words; empty if it has.
    """

    def __init__(self, kernel: Kernel, case: Case) -> None:
        self._kernel, self._case = kernel, case
        self._written: list[str] = []
        self._aliased: list[str] = []
        self._returned: list[_Returned] = []  # of past calls; of large ones, of the last
        self._changed: list[str] = []  # of those that are no longer watched
        self._guards: list[GuardedArray] = []  # of past calls, while they are small
        self._asked: tuple[Case, Case] | None = None  # the last question, and as it is handed over
        self._named: tuple[Case, str] | None = None
        self.calls = 0
        self.second: dict[str, Any] = {}
        self.lacks_gradients = ""
        if isinstance(kernel, ProcessKernel):
            kernel.begin()

    def supports(self, case: Case | None = None) -> Unsupported | None:
        """Why the kernel does not serve the case (or ``case``); None if it does.

        Raises:
            KernelError: If the kernel raises.
            AnswerError: If it says neither yes nor no.
        """
        asked = self._case if case is None else case
        try:
            self._handed(asked)
        except InputError as error:
            return Unsupported(f"the contract does not take {error.value}: {error.rule}")
        found = self._guarded("supports", self._kernel.supports, asked)
        if not isinstance(found, (Supported, Unsupported)):
            raise AnswerError(
                f"supports gives {found!r:.40}",
                rule="supports gives Supported() or Unsupported(reason)",
                fix=f"return one of {Supported.__module__}",
            )
        return Unsupported(printable(found.reason)) if isinstance(found, Unsupported) else None

    def forward(self, case: Case | None = None) -> Forward:
        """A copy of the forward pass's answer, for the case or another one.

        Raises:
            KernelError: If the kernel raises.
            AnswerError: If the answer has another form than it must.
        """
        asked = self._case if case is None else case
        return _require_forward(self._guarded("forward", self._kernel.forward, asked), asked)

    def backward(self, case: Case | None = None) -> Outputs:
        """A copy of every output, for the case or another one; without gradients if it has none.

        Raises:
            KernelError: If the kernel raises.
            AnswerError: If the answer has another form than it must.
        """
        asked = self._case if case is None else case
        found = self._backward(asked)
        self.lacks_gradients = printable(found.reason) if isinstance(found, Unsupported) else ""
        if isinstance(found, Unsupported):
            return Outputs(**dict(self.forward(asked).items()))
        return _require_outputs(found, asked)

    def _backward(self, asked: Case) -> object:
        if not asked.backward:
            return Unsupported("the case has no dO")
        contract = find_contract(asked.contract)
        if contract is not None and not contract.gradients:
            return Unsupported("the contract has no backward pass")
        if not hasattr(self._kernel, "backward"):
            return Unsupported("the kernel has no backward pass")
        try:
            return self._guarded("backward", self._kernel.backward, asked)
        except NotImplementedError as error:
            return Unsupported(str(error) or "the kernel has no backward pass")

    def internals(self, case: Case | None = None) -> Internals | None:
        """A copy of what the kernel shows, None if it shows nothing, at all or of this case.

        Raises:
            KernelError: If the kernel raises.
            AnswerError: If it shows something else.
        """
        if not isinstance(self._kernel, Dumps):
            return None
        asked = self._case if case is None else case
        found = self._guarded("internals", self._kernel.internals, asked)
        if found is not None and not isinstance(found, Internals):
            raise _not_an_answer("internals", found, Internals)
        return found

    def ask(self, case: Case) -> Outputs | Unsupported:
        """The answer to another case, which the kernel may not serve."""
        declined = self.supports(case)
        return self.backward(case) if declined is None else declined

    def lacks(self, condition: str) -> str:
        """Why no answer can be had under a condition of ``surroundings``; empty if one can."""
        if isinstance(self._kernel, ProcessKernel):
            return self._kernel.lacks(condition)
        return lacks(condition)

    @contextmanager
    def under(self, conditions: Iterable[str]) -> Iterator[list[str]]:
        """Questions are answered under conditions while it is open; yields what ``watch`` notes."""
        if isinstance(self._kernel, ProcessKernel):
            with self._kernel.under(tuple(conditions)) as seen:
                yield seen
            return
        with surrounded(conditions) as seen:
            yield seen

    def side_effects(self) -> SideEffects:
        """What was noted until now.

        Raises:
            KernelError: If a kernel in a process of its own broke.
        """
        if isinstance(self._kernel, ProcessKernel):
            return SideEffects(**self._kernel.conduct())
        changed = [*self._changed, *(text for one in self._returned if (text := one.changed))]
        late = [f"{text} (after a call)" for one in self._guards if (text := one.corruption())]
        written = self._written or list(dict.fromkeys(late))
        return SideEffects(tuple(written), tuple(self._aliased), tuple(dict.fromkeys(changed)))

    @property
    def kernel(self) -> Kernel:
        """The kernel under test."""
        return self._kernel

    def _guarded(self, call: str, function: Callable[[Case], object], case: Case) -> object:
        case = self._handed(case)
        self.calls += 1
        if isinstance(self._kernel, ProcessKernel):
            return function(case)  # which learns no id, and has memory of its own
        guards = [guard(name, array) for name, array in case.inputs.named()]
        question = anonymous(case, self._name(case), guards)
        if isinstance(self._kernel, Stored):
            question = replace(question, id=case.id)
        try:
            with kernels_own():
                answer = function(question)
        except (DmverifyError, KeyboardInterrupt):
            raise
        except NotImplementedError as error:
            if call == "backward":  # how Python says that there is none
                raise
            raise _broke(call, error) from error
        except BaseException as error:  # sys.exit(0) would end the run as a pass
            raise _broke(call, error) from error
        self._written += [f"{text} ({call})" for one in guards if (text := one.corruption())]
        if sum(one.memory.size for one in (*self._guards, *guards)) <= WATCHED:
            self._guards += guards
        kind = next((k for k in (Forward, Outputs, Internals) if isinstance(answer, k)), None)
        if kind is None:
            return answer
        arrays = {field.name: to_float32(getattr(answer, field.name)) for field in fields(kind)}
        for name, array in arrays.items():
            if isinstance(array, np.ndarray) and _shares(array, guards):
                self._aliased.append(f"{name} of {call}")
        del question, guards, answer  # before the copies, which are as large
        return self._taken(call, kind, arrays)

    def _handed(self, case: Case) -> Case:
        """``handed``; a question is put several times on end, and nobody writes to its arrays."""
        if self._asked is not None and self._asked[0] is case:
            return self._asked[1]
        given = handed(case)
        self._asked = (case, given) if self._may_keep(case) else None
        return given

    def _name(self, case: Case) -> str:
        """``name_of`` a case, in the same way."""
        if self._named is not None and self._named[0] is case:
            return self._named[1]
        name = name_of(case)
        self._named = (case, name) if self._may_keep(case) else None
        return name

    def _may_keep(self, case: Case) -> bool:
        """Whether nothing large stays for it that would be let go."""
        size = sum(array.nbytes for _, array in case.inputs.named())
        return case is self._case or size <= WATCHED

    def _taken(self, call: str, kind: type, arrays: dict[str, Any]) -> object:
        """A copy of an answer, whose arrays it takes; what it refers to is remembered."""
        if sum(one.array.nbytes for one in self._returned) > WATCHED:
            self._changed += [text for one in self._returned if (text := one.changed)]
            self._returned = []
        large = sum(x.nbytes for x in arrays.values() if isinstance(x, np.ndarray)) > WATCHED
        copies: dict[str, Any] = {}
        returned: list[_Returned] = []
        for name in list(arrays):
            array = copies[name] = arrays.pop(name)
            if isinstance(array, np.ndarray):
                copies[name] = np.array(array)
                if not (large and kind is Internals):  # let go one by one: each is as large again
                    kept = digest(copies[name]) if large else copies[name]
                    returned.append(_Returned(call, name, np.asarray(array), kept))
        self._returned += returned
        return kind(**copies)


def _bytes(array: np.typing.NDArray[np.generic]) -> np.typing.NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _shares(array: np.typing.NDArray[np.generic], guards: list[GuardedArray]) -> bool:
    """Whether an answer lies in the memory of an input."""
    return any(np.may_share_memory(array, one.memory) for one in guards)


def _broke(call: str, error: BaseException) -> KernelError:
    return KernelError(
        f"{call} raised {describe_error(error)}",
        rule="a kernel answers every case that it supports",
        fix=f"run it on that case alone, or say Unsupported; {call} is where it broke",
    )


def handed(case: Case) -> Case:
    """The case with its operands as the contract's kernels get them.

    Raises:
        InputError: For numbers that its caller cannot make codes of.
    """
    contract = find_contract(case.contract)
    if contract is None:  # to refuse it is the kernel's work: check ``refusal`` asks under one
        return case
    inputs = hand_over(contract, case.problem, case.inputs)
    return case if inputs is case.inputs else replace(case, inputs=inputs)


def name_of(case: Case) -> str:
    """A name made from the numbers alone."""
    name = hashlib.sha256(f"{case.problem} {case.contract}".encode())
    for _, array in case.inputs.named():
        name.update(digest(array).encode())
    return f"question/{name.hexdigest()[:16]}@0"


def anonymous(case: Case, name: str, guards: list[GuardedArray]) -> Case:
    """The case as a kernel sees it: guarded tensors under another name."""
    views = {one.name: one.view for one in guards}
    scales = {operand: views.pop(f"{operand}{SCALE}") for operand in case.inputs.scales}
    inputs = Inputs(**views, scales=scales)
    return Case(name, case.contract, case.problem, inputs, backward=case.backward)


def _require_forward(answer: object, case: Case) -> Forward:
    if not isinstance(answer, Forward):
        raise _not_an_answer("forward", answer, Forward)
    _checked(Outputs(answer.o, answer.lse).require, case.problem)
    return answer


def _require_outputs(answer: object, case: Case) -> Outputs:
    if not isinstance(answer, Outputs):
        raise _not_an_answer("backward", answer, Outputs)
    if missing := [name for name in GRADIENTS if name not in answer.names]:
        raise AnswerError(
            f"backward without {', '.join(missing)}",
            rule="a backward pass returns every gradient",
            fix="return Unsupported(reason) where it gives none",
        )
    _checked(answer.require, case.problem)
    return answer


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
