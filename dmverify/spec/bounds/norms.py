"""The norms that closed forms depend on: one number each for a whole call.

| name | of |
|---|---|
| q, k, v, do | the largest Euclidean norm of a row (all channels of one token and head) |
| q_max, k_max, v_max, do_max | the largest magnitude |
| do_one | the largest sum of magnitudes of a row of dO |
| q_given, k_mean | the largest Euclidean norm of a row of q as given, and of the keys' mean |

They are taken of the operands that the kernel has (code times scale, keys centred), with the
unquantised dO beside in ``do_one``. Raised by more than float64 loses in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dmverify.spec.attention.operands import prepare
from dmverify.spec.attention.parts import LIMITS
from dmverify.spec.case import Inputs
from dmverify.spec.constants import constant
from dmverify.spec.contracts import Contract
from dmverify.spec.problem import Problem

CODE_MAX = float(constant("E4M3_MAX"))
TWO_U64 = float(constant("TWO_U64"))
U = float(constant("U"))


@dataclass(frozen=True)
class Norms:
    """See the table above."""

    q: float
    k: float
    v: float
    do: float
    q_max: float
    k_max: float
    v_max: float
    do_max: float
    do_one: float
    q_given: float
    k_mean: float


def measure(contract: Contract, problem: Problem, inputs: Inputs) -> Norms:
    """The norms of a call's operands.

    Args:
        contract: Says how operands are quantised.
        problem: Sizes and scale.
        inputs: Finite BF16 tensors (B, N, H, D).

    Raises:
        InputError: For NaN or infinity where the contract's scale rule forbids them.
    """
    with np.errstate(all="ignore"):
        lengths = (problem.queries, problem.keys)  # padding has no norm
        prepared = prepare(contract, problem, inputs, cast=True, lengths=lengths)
    sizes, tops, ones = {}, {}, {}
    for name, (codes, scale) in prepared.tensors.items():  # one by one, since float64 is large
        exact = codes.astype(np.float64) * scale.astype(np.float64)
        rows = exact.reshape(-1, exact.shape[-1])
        sizes[name] = _longest(rows)
        np.abs(rows, out=rows)
        tops[f"{name}_max"] = float(rows.max(initial=0))
        ones[name] = float(rows.sum(1).max(initial=0))
        del exact, rows
    most = 0.0
    if "do" not in inputs.scales:  # which are codes, and no dO
        given = prepared.do_input.astype(np.float64)
        most = float(np.abs(given, out=given).sum(-1).max(initial=0))
        del given
    slack = 1 + (problem.head_dim + problem.keys) * TWO_U64
    open_mean = 1 + 2 * (2 + problem.keys) * U if contract.centre_k == "mean" else 1.0
    for table, key in ((sizes, "k"), (tops, "k_max")):
        table[key] *= open_mean
    more = {
        "do_one": max(ones["do"], most),
        "q_given": _longest(prepared.q_input),
        "k_mean": _longest(prepared.k_mean) * open_mean,
    }
    return Norms(**{n: x * slack for n, x in {**sizes, **tops, **more}.items()})


def _longest(x: npt.NDArray[np.floating[Any]]) -> float:
    """The largest norm of a row, a few rows at a time: numpy's squares are two arrays more."""
    rows = x.reshape(-1, x.shape[-1])
    some = max(1, LIMITS.head // rows.shape[-1])
    parts = (rows[at : at + some].astype(np.float64) for at in range(0, len(rows), some))
    return float(np.max([np.linalg.norm(part, axis=1).max() for part in parts], initial=0))
