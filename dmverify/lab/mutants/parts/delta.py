"""Faults of the softmax correction delta, and of the softmax scale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.lab.mutants import cases as on
from dmverify.lab.mutants.fault import Fault, Plant, Step
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.delta import Row
from dmverify.spec.attention.forward import Forward
from dmverify.spec.attention.operands import Head
from dmverify.spec.attention.products import Coded
from dmverify.spec.case import F64, Case, Outputs
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import E4M3
from dmverify.spec.namespace import Array
from dmverify.spec.problem import Problem

CONSISTENT = "bundled:delta=consistent"


def _stale_fp8(
    original: Step,
    case: Case,
    a: Arithmetic,
    contract: Contract,
    head: Head,
    fwd: Forward,
    row: Row,
) -> Any:
    narrow = replace(fwd, o=E4M3.round(fwd.o, saturate=True))
    return original(a, replace(contract, delta="stale"), head, narrow, row)


def _previous_row(original: Step, case: Case, *args: Any) -> tuple[Array, Array]:
    shift, delta = original(*args)
    return shift, np.roll(delta, 1, axis=0)


def _zero(original: Step, case: Case, *args: Any) -> tuple[Array, Array]:
    shift, delta = original(*args)
    return shift, np.zeros_like(delta)


def _added(original: Step, case: Case, *args: Any) -> Any:
    *most, delta = args
    return original(*most, -delta)


def _without_last_window(
    original: Step, case: Case, a: Arithmetic, partial: Array, *rest: Array
) -> Array:
    return original(a, partial[:, :-1], *rest)


def _dk_scaled(times: int) -> Plant:
    """dK with the softmax scale to another power than 1."""

    def step(original: Step, case: Case, a: Arithmetic, name: str, x: F64) -> Array:
        factor = abs(case.problem.scale) ** times if name == "dk" else 1.0
        return original(a, name, x * factor)

    return Plant({"interpret.stored": step})


def _without_first_keys(outputs: Outputs, case: Case) -> Outputs:
    """dK whose first half of the keys was never written."""
    dk = outputs.dk.copy()
    dk[:, : dk.shape[1] // 2] = 0
    return replace(outputs, dk=dk)


def _unscaled(
    original: Step, case: Case, a: Arithmetic, contract: Contract, head: Head, ds: Coded, *rest: Any
) -> Array:
    return original(a, contract, replace(head, scale=1.0), ds, *rest)


def _positive_scale(problem: Problem) -> Problem:
    return replace(problem, softmax_scale=abs(problem.scale))


ROWS = (
    Fault(
        "delta-stale",
        "delta",
        "delta is <dO, O> with O as stored, where matched is promised",
        "delta",
        Plant(contract={"delta": "stale"}),
        (on.V_OFFSET,),
    ),
    Fault(
        "delta-stale-row-sum",
        "delta",
        "delta is <dO^, O> where matched is promised; the rows of dS do not add up",
        "row-sum",
        Plant(contract={"delta": "consistent"}),
        (on.V_OFFSET,),
    ),
    Fault(
        "delta-stale-fp8",
        "delta",
        "delta is <dO, O> with O rounded to E4M3",
        "delta",
        Plant({"backward.delta": _stale_fp8}),
        (on.V_OFFSET,),
    ),
    Fault(
        "delta-unquantised-do",
        "delta",
        "delta uses dO as it came where dP uses its codes",
        "delta",
        Plant(contract={"delta": "stale"}),
        (on.V_OFFSET,),
        CONSISTENT,
    ),
    Fault(
        "delta-renormalised",
        "delta",
        "delta is divided by the sum of P, where matched is promised",
        "delta",
        Plant(contract={"delta": "renormalized"}),
        (on.V_OFFSET,),
        hidden="P adds up to 1 within a few ulp, so both deltas are within one order's reach",
    ),
    Fault(
        "delta-previous-row",
        "delta",
        "every row takes the delta of the row above",
        "delta",
        Plant({"backward.delta": _previous_row}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "delta-zero",
        "delta",
        "delta is 0",
        "delta",
        Plant({"backward.delta": _zero}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "delta-zero-columns",
        "delta",
        "delta is 0; the sums of dK over the keys drift",
        "sum-dk",
        Plant({"backward.delta": _zero}),
        (on.V_OFFSET_FAR,),
    ),
    Fault(
        "dk-first-keys-lost",
        "delta",
        "dK of the first half of the keys is 0, so what is left does not add up to the rows of dS",
        "columns",
        Plant(outputs=_without_first_keys),
        (on.GAUSSIAN,),
    ),
    Fault(
        "delta-sign",
        "delta",
        "delta is added",
        "dq",
        Plant({"backward.cast_tiles": _added}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "delta-last-window",
        "delta",
        "delta lacks the last window",
        "row-sum",
        Plant({"delta._total": _without_last_window}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "dk-scale-twice",
        "softmax scale",
        "dK is multiplied by the softmax scale twice",
        "dk",
        _dk_scaled(1),
        (on.GAUSSIAN,),
    ),
    Fault(
        "dk-scale-missing",
        "softmax scale",
        "dK is not multiplied by the softmax scale",
        "dk",
        _dk_scaled(-1),
        (on.GAUSSIAN,),
    ),
    Fault(
        "dq-scale-missing",
        "softmax scale",
        "dQ is not multiplied by the softmax scale",
        "dq",
        Plant({"backward._query_gradient": _unscaled}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "softmax-scale-sign",
        "softmax scale",
        "a negative softmax scale is taken to be positive",
        "o",
        Plant(problem=_positive_scale),
        (on.NEGATIVE_SCALE,),
    ),
)
"""Faults of this part."""
