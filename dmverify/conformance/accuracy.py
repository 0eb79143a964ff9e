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
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from dmverify.errors import InputError
from dmverify.spec.arithmetic import Double
from dmverify.spec.attention.operands import padded
from dmverify.spec.attention.parts import in_parts
from dmverify.spec.case import F32, F64, Case
from dmverify.spec.contracts import get_contract

LARGEST = 2**23  # scores of a call: a few hundred MiB of float64
OPERAND = 2**24  # numbers of an operand: many heads of a few tokens are mostly padding
FRACTION_BITS = MappingProxyType({"o": 7, "dq": 7, "dk": 7, "dv": 7, "lse": 23, "delta": 23})
"""Of the format that each output is stored in: BF16, and float32 for rows."""
ABSOLUTE = frozenset({"lse"})


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
        name: Of the output; gives the format and whether errors are absolute.
        got: What the kernel returned.
        reference: What it is compared with.
    """
    finite = np.isfinite(reference)
    if not finite.any():
        return NOTHING
    due = reference[finite]
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got[finite].astype(np.float64) - due)
    error = np.where(np.isnan(error), np.inf, error)
    size = 1.0 if name in ABSOLUTE else _root_mean_square(due)
    unit = np.ldexp(1.0, np.frexp(np.maximum(np.abs(due), size))[1] - 1 - FRACTION_BITS[name])
    return Distance(
        rms=_over(_root_mean_square(error), size),
        worst=_over(float(error.max()), size),
        ulp=float(_quotients(error, unit).max()),
    )


def attention_in_float64(case: Case) -> dict[str, F64] | None:
    """Attention and its gradients without any cast, by output; None where it would not fit.

    ``delta`` is the exact correction, sum of P dP.
    """
    problem = case.problem
    heads, longest = problem.batch * problem.heads, max(problem.queries, problem.keys)
    if heads * problem.queries * problem.keys > LARGEST:
        return None
    if heads * padded(longest) * problem.head_dim > OPERAND:
        return None
    contract = get_contract(case.contract)
    run = in_parts(contract, problem, case.inputs, Double(), lambda x: (x,))
    return {name: x for name, (x,) in run.found.items()}


def read_limits(words: tuple[str, ...]) -> dict[str, float]:
    """Limits of ``rms`` by output, from words such as ``dq=0.1``.

    Raises:
        InputError: For another form, an unknown output, or a limit that is no number above 0.
    """
    return dict(_limit(word) for word in words)


def _limit(word: str) -> tuple[str, float]:
    name, _, value = word.partition("=")
    try:
        limit = float(value)
    except ValueError:
        limit = math.nan
    if name not in FRACTION_BITS or not limit > 0:
        raise InputError(
            f"max error {word!r}",
            rule=f"a limit is output=number above 0, and outputs are {', '.join(FRACTION_BITS)}",
            fix="write for example dq=0.1",
        )
    return name, limit


def _root_mean_square(x: F64) -> float:
    largest = float(np.abs(x).max(initial=0.0))
    if largest == 0 or math.isinf(largest):
        return largest
    return largest * math.sqrt(float(np.mean((x / largest) ** 2)))  # squares of 1e200 overflow


def _over(error: float, size: float) -> float:
    if error == 0:
        return 0.0
    return error / size if size > 0 else math.inf


def _quotients(error: F64, unit: F64) -> F64:
    """error / unit; 0 where both are 0, infinite where only the unit is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(error == 0, 0.0, error / unit))
