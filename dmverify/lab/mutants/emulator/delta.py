"""Faults of the softmax correction delta, and of the softmax scale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.mutation import Mutation, Step
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.num import Num
from dmverify.spec.attention.operands import BlockScaled, Head
from dmverify.spec.attention.state import Forward, Row
from dmverify.spec.attention.sums import ByWindow
from dmverify.spec.case import F64, Case, Outputs
from dmverify.spec.formats import E4M3
from dmverify.spec.namespace import Array
from dmverify.spec.problem import Problem

CONSISTENT = "bundled:delta=consistent"


def _stale_fp8(
    original: Step, case: Case, mode: str, order: Any, head: Head, fwd: Forward, row: Row
) -> Any:
    narrow = replace(fwd, o=Num(E4M3.round(fwd.o.array, saturate=True), fwd.o.a))
    return original("stale", order, head, narrow, row)


def _previous_row(original: Step, case: Case, *args: Any) -> tuple[Num, Num]:
    shift, delta = original(*args)
    return shift, Num(np.roll(delta.array, 1, axis=0), delta.a)


def _zero(original: Step, case: Case, *args: Any) -> tuple[Num, Num]:
    shift, delta = original(*args)
    return shift, Num(np.zeros_like(delta.array), delta.a)


def _added(original: Step, case: Case, *args: Any) -> Any:
    *most, (shift, delta) = args
    return original(*most, (shift, -delta))


def _without_last_window(
    original: Step, case: Case, order: ByWindow, lanes: Num, scale: Num
) -> Num:
    found: Num = original(order, lanes[:, :-1], scale)
    return found


def _dk_scaled(times: int) -> Mutation:
    """dK with the softmax scale to another power than 1."""

    def step(original: Step, case: Case, a: Arithmetic, name: str, x: F64) -> Array:
        factor = abs(case.problem.scale) ** times if name == "dk" else 1.0
        return original(a, name, x * factor)

    return Mutation({"run.stored": step})


def _without_first_keys(outputs: Outputs, case: Case) -> Outputs:
    """dK whose first half of the keys was never written."""
    dk = outputs.dk.copy()
    dk[:, : dk.shape[1] // 2] = 0
    return replace(outputs, dk=dk)


def _unscaled(original: Step, case: Case, order: Any, head: Head, ds: BlockScaled) -> Num:
    found: Num = original(order, replace(head, scale=1.0), ds)
    return found


def _positive_scale(problem: Problem) -> Problem:
    return replace(problem, softmax_scale=abs(problem.scale))


MUTATIONS = {
    "delta-stale": Mutation(contract={"delta": "stale"}),
    "delta-stale-row-sum": Mutation(contract={"delta": "consistent"}),
    "delta-stale-fp8": Mutation({"windows.delta": _stale_fp8}),
    "delta-unquantised-do": Mutation(contract={"delta": "stale"}),
    "delta-renormalised": Mutation(contract={"delta": "renormalized"}),
    "delta-previous-row": Mutation({"windows.delta": _previous_row}),
    "delta-zero": Mutation({"windows.delta": _zero}),
    "delta-zero-columns": Mutation({"windows.delta": _zero}),
    "dk-first-keys-lost": Mutation(outputs=_without_first_keys),
    "delta-sign": Mutation({"windows.by_exponent": _added}),
    "delta-last-window": Mutation({"sums.ByWindow.over_windows": _without_last_window}),
    "dk-scale-twice": _dk_scaled(1),
    "dk-scale-missing": _dk_scaled(-1),
    "dq-scale-missing": Mutation({"windows.query_gradient": _unscaled}),
    "softmax-scale-sign": Mutation(problem=_positive_scale),
}
"""By the mutant's id."""
