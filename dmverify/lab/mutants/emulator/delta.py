"""Faults of the softmax correction delta, and of the softmax scale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.mutation import Mutation, Step
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


def _dk_scaled(times: int) -> Mutation:
    """dK with the softmax scale to another power than 1."""

    def step(original: Step, case: Case, a: Arithmetic, name: str, x: F64) -> Array:
        factor = abs(case.problem.scale) ** times if name == "dk" else 1.0
        return original(a, name, x * factor)

    return Mutation({"interpret.stored": step})


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


MUTATIONS = {
    "delta-stale": Mutation(contract={"delta": "stale"}),
    "delta-stale-row-sum": Mutation(contract={"delta": "consistent"}),
    "delta-stale-fp8": Mutation({"backward.delta": _stale_fp8}),
    "delta-unquantised-do": Mutation(contract={"delta": "stale"}),
    "delta-renormalised": Mutation(contract={"delta": "renormalized"}),
    "delta-previous-row": Mutation({"backward.delta": _previous_row}),
    "delta-zero": Mutation({"backward.delta": _zero}),
    "delta-zero-columns": Mutation({"backward.delta": _zero}),
    "dk-first-keys-lost": Mutation(outputs=_without_first_keys),
    "delta-sign": Mutation({"backward.cast_tiles": _added}),
    "delta-last-window": Mutation({"delta._total": _without_last_window}),
    "dk-scale-twice": _dk_scaled(1),
    "dk-scale-missing": _dk_scaled(-1),
    "dq-scale-missing": Mutation({"backward._query_gradient": _unscaled}),
    "softmax-scale-sign": Mutation(problem=_positive_scale),
}
"""By the mutant's id."""
