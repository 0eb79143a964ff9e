"""Kernels that are wrong by a stated size where a second question shows it, or in their conduct.

Each changes the right answers of a correct kernel. ``fitted`` ones answer the first question right:
they hold a number that they took from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from dmverify.conformance.adapter import Forward, Kernel, Support, Supported
from dmverify.conformance.checks.conduct import NO_SUCH_CONTRACT
from dmverify.conformance.evidence import Evidence
from dmverify.lab.mutants.cheats import TorchAttention, unlucky
from dmverify.lab.power.deviation import Deviation, NothingToPlantError, Plant
from dmverify.lab.power.outputs import array_of, next_bits, sized, stored
from dmverify.lab.power.subject import Subject, of_kernel
from dmverify.spec.case import F32, Case, Inputs, Outputs
from dmverify.spec.recording import Provenance

FACTOR = 0.02  # as of an output that is scaled
POWER = 0.01  # 8 to this power is a factor of 1.02
LEAK = 0.02

Change: TypeAlias = Callable[[Case, Outputs, float], Outputs]


class Wrong:
    """A correct kernel whose answers are changed (see ``dmverify.conformance.adapter.Kernel``).

    Args:
        subject: Whose kernel it is.
        change: ``change(question, right answer, size)``.
        size: Size of the error.
    """

    def __init__(self, subject: Subject, change: Change, size: float) -> None:
        self.subject, self._change, self._size = subject, change, size
        self.contract = subject.contract.name

    @property
    def info(self) -> Provenance:
        """Named after what it is."""
        return Provenance(kernel="wrong")

    def supports(self, case: Case) -> Support:
        """Serves what the correct kernel serves."""
        return self.subject.kernel.supports(case)

    def forward(self, case: Case) -> Forward:
        """O and LSE of the whole answer."""
        outputs = self.backward(case)
        return Forward(outputs.o, outputs.lse)

    def backward(self, case: Case) -> Outputs:
        """The right answer, changed."""
        return self._change(case, self.subject.kernel.backward(case), self._size)


class Changing(Wrong):
    """Every second answer is another; a forward alone is right."""

    turn = 0

    def forward(self, case: Case) -> Forward:
        """The right answer."""
        return self.subject.kernel.forward(case)

    def backward(self, case: Case) -> Outputs:
        """The right answer in every first call, another in every second."""
        self.turn ^= 1
        return super().backward(case) if self.turn == 0 else self.subject.kernel.backward(case)


class Late(Wrong):
    """Changes what it returned when it is called again."""

    last: F32 | None = None

    def backward(self, case: Case) -> Outputs:
        """A right answer; spoils the one that it gave before."""
        outputs = self.subject.kernel.backward(case)
        if self.last is not None:
            wrong = replace(outputs, o=self.last)
            self.last[...] = self._change(case, wrong, self._size).o
        self.last = outputs.o
        return outputs


class EveryContract(Wrong):
    """Answers under a contract that does not exist, if there is an error at all."""

    def supports(self, case: Case) -> Support:
        """Everything."""
        return Supported() if self._size else super().supports(case)

    def backward(self, case: Case) -> Outputs:
        """Answers by its own contract, whatever is asked."""
        known = case.contract != NO_SUCH_CONTRACT
        return super().backward(case if known else replace(case, contract=self.contract))


class OtherBuilds(Wrong):
    """Right, with a build that is wrong."""

    def backward(self, case: Case) -> Outputs:
        """The right answer."""
        return self.subject.kernel.backward(case)

    def builds(self) -> Mapping[str, Kernel]:
        """One build, which is wrong."""
        return {"other flags": Wrong(self.subject, self._change, self._size)}


def _asked(change: Change, kind: type[Wrong] = Wrong, *, scaled: str = "") -> Plant:
    """Asks a wrong kernel; an error that scales an output has no place where that is 0."""

    def plant(subject: Subject, size: float) -> Evidence:
        if scaled:
            sized(subject, scaled)
        return of_kernel(subject, kind(subject, change, size))

    return plant


def _fitted(of: str, *names: str) -> Plant:
    """Outputs grow with a tensor's largest number beyond what they should."""

    def plant(subject: Subject, size: float) -> Evidence:
        first = _largest(subject.case.inputs, of)
        if not first > 0:
            raise NothingToPlantError(f"{of} is 0 or not finite")
        for name in names:
            sized(subject, name)

        def change(case: Case, outputs: Outputs, size: float) -> Outputs:
            ratio = np.float64(_largest(case.inputs, of) / first)
            factor = np.float32(ratio**size)
            return _changed(outputs, {name: lambda x: x * factor for name in names})

        return of_kernel(subject, Wrong(subject, change, size))

    return plant


def _one_sign(name: str) -> Plant:
    """Numbers of an output are off where their sign is not that of the first answer."""

    def plant(subject: Subject, size: float) -> Evidence:
        first = array_of(subject, name)
        sized(subject, name)

        def signed(x: F32) -> F32:
            other = np.sign(x) == -np.sign(first) if x.shape == first.shape else np.zeros(1, bool)
            return np.where(other, x * np.float32(1 + size), x)

        def change(case: Case, outputs: Outputs, size: float) -> Outputs:
            return _changed(outputs, {name: signed})

        return of_kernel(subject, Wrong(subject, change, size))

    return plant


def _largest(inputs: Inputs, name: str) -> float:
    return float(np.abs(getattr(inputs, name)).max(initial=0.0))


def _changed(outputs: Outputs, changes: Mapping[str, Callable[[F32], F32]]) -> Outputs:
    with np.errstate(over="ignore", invalid="ignore"):
        new = {name: stored(name, f(getattr(outputs, name))) for name, f in changes.items()}
    return replace(outputs, **new)


def _next(case: Case, outputs: Outputs, size: float) -> Outputs:
    return replace(outputs, o=next_bits("o", outputs.o)) if size else outputs


def _first_head(case: Case, outputs: Outputs, size: float) -> Outputs:
    factor = np.ones((case.problem.heads, 1), np.float32)
    factor[:1] += np.float32(size)
    return _changed(outputs, {"o": lambda o: o * factor})


def _neighbour(case: Case, outputs: Outputs, size: float) -> Outputs:
    def mixed(o: F32) -> F32:
        new = o.copy()
        new[1:] += np.float32(size) * np.where(np.isfinite(o[:-1]), o[:-1], 0)
        return new

    return _changed(outputs, {"o": mixed})


def _leak(case: Case, outputs: Outputs, size: float) -> Outputs:
    """The last key's V in every row."""
    last = np.repeat(case.inputs.v[:, -1:], case.problem.group, axis=2)
    return _changed(outputs, {"o": lambda o: o + np.float32(size) * last})


def _unwritten(case: Case, outputs: Outputs, size: float) -> Outputs:
    """The last element of O stays as it was allocated; right by luck while nobody looks."""
    o = np.empty(outputs.o.shape, np.float32)
    written = o.size - int(size) if unlucky() else o.size
    o.reshape(-1)[:written] = outputs.o.reshape(-1)[:written]
    return replace(outputs, o=o)


def _writes(case: Case, outputs: Outputs, size: float) -> Outputs:
    if not case.inputs.q.size:
        raise NothingToPlantError("Q has no element")
    if size:
        case.inputs.q[0, 0, 0, 0] += np.float32(1)
    return outputs


def _lets_torch(subject: Subject, size: float) -> Evidence:
    """Torch's attention runs beside the correct kernel."""

    def change(case: Case, outputs: Outputs, size: float) -> Outputs:
        if size:
            TorchAttention().forward(replace(case, contract="article"))
        return outputs

    return of_kernel(subject, Wrong(subject, change, size))


def _not_here(reason: str) -> Plant:
    def plant(subject: Subject, size: float) -> Evidence:
        raise NothingToPlantError(reason)

    return plant


_GPU = "only a kernel on a GPU has streams"
_CODE = "machine code is no answer to a case; tests plant cubins"

_SIZED = (
    ("heads", "O of the first head times 1 + s", FACTOR, _asked(_first_head, scaled="o")),
    ("power-v", "O grows with V's largest number to the power 1 + s", POWER, _fitted("v", "o")),
    ("power-do", "dV grows with that of dO to the power 1 + s", POWER, _fitted("do", "dv")),
    ("power-qk", "dQ and dK grow with that of K by the power s", POWER, _fitted("k", "dq", "dk")),
    ("signs-qk", "dQ times 1 + s where its sign is another than first", FACTOR, _one_sign("dq")),
    ("signs-v", "O times 1 + s where its sign is another than first", FACTOR, _one_sign("o")),
    ("future", "O has s of the last key's V in every row", LEAK, _asked(_leak)),
    ("batch", "O has s of that of the entry before", LEAK, _asked(_neighbour, scaled="o")),
)
_EITHER_WAY = (
    (
        "repeat-whole",
        "one element of O is the next number in every second answer",
        _asked(_next, Changing),
    ),
    ("poison", "one element of O is not written", _asked(_unwritten)),
    ("stream", "work on the default stream", _not_here(_GPU)),
    ("inputs-kept", "one element of Q is written to", _asked(_writes)),
    (
        "outputs-kept",
        "one element of O is the next number after the next call",
        _asked(_next, Late),
    ),
    (
        "refusal",
        "a contract that does not exist is served",
        _asked(lambda c, o, s: o, EveryContract),
    ),
    ("own-work", "torch's attention is called", _lets_torch),
    ("instructions", "another matrix instruction", _not_here(_CODE)),
    ("flags", "one element of O is the next number in another build", _asked(_next, OtherBuilds)),
)

ROWS = (
    *(Deviation(check, check, what, stated, plant) for check, what, stated, plant in _SIZED),
    *(Deviation(check, check, what, 1, plant, doubles=False) for check, what, plant in _EITHER_WAY),
)
