"""How wrong an answer is: its distance from attention in float64, and from its contract.

A kernel may conform and be far from attention, because its contract is: the recipe's own rounding
is no fault. So every judged output says both, whatever the verdict.

| number | is |
|---|---|
| rms | norm(got - reference) / norm(reference), over the whole tensor |
| worst | largest abs(got - reference) / root mean square of the reference |
| ulp | largest abs(got - reference) in units in the last place of the output's format, at the |
| | reference or at its root mean square, whichever is larger |

LSE is a logarithm, so its errors count as they are: rms and worst are in nats. Elements whose
reference is not finite take no part, and one that is not finite where the reference is counts as
infinitely wrong. References: the attention steps in float64 without any cast, on the inputs; the
bits of the contract, or the middle of what it allows.

Not covered: problems of more than ``LARGEST`` scores, or of more than ``OPERAND`` numbers in an
operand whose heads are padded, whose float64 attention would not fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from dmverify.errors import InputError
from dmverify.spec.arithmetic import Double
from dmverify.spec.attention.operands import padded
from dmverify.spec.attention.parts import AttentionCall, Interpreter, each_part, in_parts
from dmverify.spec.case import F32, F64, Case
from dmverify.spec.contracts import get_contract
from dmverify.spec.formats import FloatFormat
from dmverify.spec.problem import Problem

LARGEST = 2**23  # scores of a call: a few hundred MiB of float64
OPERAND = 2**24  # numbers of an operand: many heads of a few tokens are mostly padding
FRACTION_BITS = MappingProxyType({"o": 7, "dq": 7, "dk": 7, "dv": 7, "lse": 23, "delta": 23})
"""Of the format that each output is stored in unless a contract says: BF16, float32 for rows."""
ABSOLUTE = frozenset({"lse"})
BINADES = (-1074, 1024)  # exponents that frexp gives of finite numbers, all of them


@dataclass(frozen=True)
class Distance:
    """See the table of the module; NaN where nothing was measured."""

    rms: float
    worst: float
    ulp: float


@dataclass(frozen=True)
class Accuracy:
    """One output of one case.

    Attributes:
        attention: From attention in float64 on the inputs.
        contract: From what the contract computes.
    """

    attention: Distance
    contract: Distance


NOTHING = Distance(math.nan, math.nan, math.nan)


def distance(name: str, got: F32, reference: F64) -> Distance:
    """How far an output is from a reference of the same shape.

    Args:
        name: Name of the output; it gives the format and whether errors are absolute.
        got: What the kernel returned.
        reference: What it is compared with.
    """
    errors = Errors(name)
    errors.add(got, reference)
    return errors.distance()


class Errors:
    """Errors of an output, added part by part.

    Args:
        name: Name of the output; it says whether errors are absolute.
        fmt: The format that it is stored in, whose units are counted; None as in the table above.
    """

    def __init__(self, name: str, fmt: FloatFormat | None = None) -> None:
        self._name = name
        self._bits = FRACTION_BITS[name] if fmt is None else fmt.mantissa_bits
        self._due, self._error = _Square(), _Square()
        self._largest = np.zeros(BINADES[1] - BINADES[0] + 1)  # error, by the reference's exponent

    def add(self, got: F32, reference: F64) -> None:
        """Adds the errors of some more elements."""
        finite = np.isfinite(reference)
        due = reference[finite]
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(got[finite].astype(np.float64) - due)
        error = np.where(np.isnan(error), np.inf, error)
        exponent = np.where(due == 0, BINADES[0], np.frexp(due)[1])
        np.maximum.at(self._largest, exponent - BINADES[0], error)
        self._due.add(due)
        self._error.add(error)

    def distance(self) -> Distance:
        """The distance over all elements that were added."""
        if not self._due.count:
            return NOTHING
        size = 1.0 if self._name in ABSOLUTE else self._due.root_mean()
        least = math.frexp(size)[1]
        exponent = np.maximum(np.arange(BINADES[0], BINADES[1] + 1), least)
        with np.errstate(over="ignore"):
            units = np.ldexp(self._largest, self._bits + 1 - exponent)
        return Distance(
            rms=_over(self._error.root_mean(), size),
            worst=_over(float(self._largest.max()), size),
            ulp=float(units.max()),
        )


class _Square:
    """A root mean square, whose squares may be too large or small for float64."""

    def __init__(self) -> None:
        self.count = 0
        self._largest = self._sum = 0.0  # of (x / largest)^2

    def add(self, x: F64) -> None:
        self.count += x.size
        largest = float(np.abs(x).max(initial=0.0))
        if largest > self._largest:
            self._sum *= (self._largest / largest) ** 2
            self._largest = largest
        if self._largest and math.isfinite(self._largest):
            self._sum += float(np.square(x / self._largest).sum())

    def root_mean(self) -> float:
        if self._largest == 0 or math.isinf(self._largest):
            return self._largest
        return self._largest * math.sqrt(self._sum / self.count)


def attention_in_float64(case: Case) -> dict[str, F64] | None:
    """Attention and its gradients without any cast, by output; None where it would not fit.

    ``delta`` is the exact correction, sum of P dP.
    """
    if not has_attention(case.problem):
        return None
    run = in_parts(_call(case), Interpreter(Double(), _number))
    return {name: x for name, (x,) in run.found.items()}


def each_attention(case: Case, take: Callable[[str, tuple[Any, ...], F64], None]) -> None:
    """Gives ``attention_in_float64`` part by part; nothing where that gives None.

    Args:
        case: The case.
        take: Called with an output's name, an index of the whole array, and the numbers there.
    """
    if has_attention(case.problem):
        by = Interpreter(Double(), _number)
        each_part(_call(case), by, lambda part: take(part.name, part.place, part.found[0]))


def has_attention(problem: Problem) -> bool:
    """Whether attention in float64 is made for a problem."""
    heads, longest = problem.batch * problem.heads, max(problem.queries, problem.keys)
    scores = heads * problem.queries * problem.keys
    return scores <= LARGEST and heads * padded(longest) * problem.head_dim <= OPERAND


def _call(case: Case) -> AttentionCall:
    return AttentionCall(get_contract(case.contract), case.problem, case.inputs)


def _number(x: F64) -> tuple[F64]:
    return (x,)


def read_limits(words: tuple[str, ...]) -> dict[str, float]:
    """Limits of ``rms`` by output, from words such as ``dq=0.1``.

    Raises:
        InputError: For another form, an output that has two limits, and as ``require_limits``.
    """
    pairs = [(name, value) for name, _, value in (word.partition("=") for word in words)]
    if len(dict(pairs)) < len(pairs):
        raise InputError(
            f"max error {' '.join(words)}",
            rule="an output has one limit",
            fix="name each output once",
        )
    return require_limits({name: _as_number(value) for name, value in pairs})


def require_limits(limits: Mapping[str, float]) -> dict[str, float]:
    """Limits of ``rms`` by output.

    Raises:
        InputError: If they are no mapping, and for an unknown output, or a limit that is no number
            above 0.
    """
    pairs = dict(limits).items() if isinstance(limits, Mapping) else [(str(limits), math.nan)]
    for name, limit in pairs:
        if name not in FRACTION_BITS or not isinstance(limit, (int, float)) or not limit > 0:
            raise InputError(
                f"max error {name}={limit}",
                rule="a limit is output=number above 0, and outputs are "
                f"{', '.join(FRACTION_BITS)}",
                fix="write for example dq=0.1",
            )
    return dict(limits)


def _as_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _over(error: float, size: float) -> float:
    if error == 0:
        return 0.0
    return error / size if size > 0 else math.inf
