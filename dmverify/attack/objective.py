"""What an attack maximises, as one number for each candidate.

| objective | is |
|---|---|
| o, dq, dk, dv | norm(got - exact) / max(norm(exact), FLOOR norm(size)), over the whole tensor |
| residual | root mean square of the row sums of dS after its cast, over that of sum abs(dS) |
| colsum | norm of the sum of dK over keys, over that of the sum of abs(dK): 0 without rounding |
| gap | the largest distance of two kernels' gradients, floored like the first row |

exact is attention in float64, *against* the inputs, or against the operands: what is left of the
inputs after the contract's own quantisation of Q, K, V and dO. The latter error is what delta, P
and dS cost, and tells modes and kernels apart; the former is mostly operand rounding. Without a
floor the relative error has no ceiling, since an output can vanish by itself (dQ where dO is
orthogonal to V); the plain relative error and the floor's share stand beside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dmverify.attack.reference import Exact
from dmverify.errors import InputError, unknown_name
from dmverify.spec.case import Internals, Outputs

FLOOR = 0.05  # of the size: below it an output counts as vanished
ERRORS = ("o", "dq", "dk", "dv")
GRADIENTS = ("dq", "dk", "dv")
OBJECTIVES = (*ERRORS, "residual", "colsum", "gap")
AGAINST = ("inputs", "operands")


@dataclass(frozen=True)
class Objective:
    """What is maximised.

    Attributes:
        name: One of ``OBJECTIVES``.
        against: ``inputs`` or ``operands``.
        other: The second kernel of a gap.
    """

    name: str
    against: str = "inputs"
    other: str = ""


def read_objective(text: str, against: str) -> Objective:
    """Reads an objective: ``dq``, ``residual``, ``gap:KERNEL`` and so on.

    Raises:
        UnknownNameError: For another name.
        InputError: For a gap without a kernel, or a kernel without a gap.
    """
    name, sign, other = text.partition(":")
    if name not in OBJECTIVES:
        raise unknown_name("objective", name, OBJECTIVES)
    if against not in AGAINST:
        raise unknown_name("reference", against, AGAINST)
    if (name == "gap") != bool(other):
        raise InputError(
            f"objective {text!r}",
            rule="gap needs the name of another kernel, and no other objective takes one",
            fix="write gap:KERNEL, or leave out what follows the colon",
        )
    return Objective(name, against, other if sign else "")


@dataclass(frozen=True, eq=False)
class Distance:
    """Errors of one output, (C,) each.

    Attributes:
        value: Floored; what is maximised.
        plain: Over the norm of the exact output alone; infinite where that is 0.
        floor: Share of the denominator that is the floor's: 1 where the floor decides.
    """

    value: Tensor
    plain: Tensor
    floor: Tensor


def distance(got: Tensor, due: Tensor, size: Tensor) -> Distance:
    """How far an output is from the exact one, candidate by candidate.

    Args:
        got: What the kernel returned, (C, ...).
        due: The exact output.
        size: Its size (``reference``).
    """
    error, exact, floor = norm(got.double() - due), norm(due), FLOOR * norm(size)
    least = torch.finfo(torch.float64).tiny
    scale = torch.maximum(exact, floor).clamp_min(least)
    plain = torch.where(error == 0, 0.0, error / exact)
    return Distance(error / scale, plain, (floor / scale).clamp_max(1))


def column_sums(dk: Tensor) -> Tensor:
    """``colsum`` of dK (C, N, H, D)."""
    wide = dk.double()
    whole = norm(wide.abs().sum(1))
    return torch.where(whole > 0, norm(wide.sum(1)) / whole, 0.0)


def residuals(inside: Internals) -> Tensor:
    """``residual`` of the numbers inside a call, (C,)."""
    ds = torch.from_numpy(np.asarray(inside.ds_cast, np.float64))
    rows, sizes = ds.sum(-1), ds.abs().sum(-1)
    whole = norm(sizes)
    return torch.where(whole > 0, norm(rows) / whole, 0.0)


def gap(one: Outputs, other: Outputs, due: Exact) -> Tensor:
    """``gap`` of two answers, (C,)."""
    parts = []
    for name in GRADIENTS:
        first, second = (torch.from_numpy(getattr(x, name)).double() for x in (one, other))
        scale = torch.maximum(norm(due.outputs[name]), FLOOR * norm(due.sizes[name]))
        parts.append(norm(first - second) / scale.clamp_min(torch.finfo(torch.float64).tiny))
    return torch.stack(parts).amax(0)


def norm(x: Tensor) -> Tensor:
    """The norm of each candidate, (C,)."""
    found: Tensor = torch.linalg.vector_norm(x.flatten(1), dim=1)
    return found
