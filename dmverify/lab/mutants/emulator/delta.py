"""Mutants of the softmax correction delta, and of the softmax scale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.mutation import Call, Mutation
from dmverify.lab.mutants.emulator.shared import with_array
from dmverify.spec.attention.num import Num
from dmverify.spec.case import Case, Outputs
from dmverify.spec.formats import E4M3
from dmverify.spec.problem import Problem


def _stale_fp8(call: Call) -> Any:
    fwd = call["fwd"]
    narrow = with_array(fwd.o, lambda x: E4M3.round(x, saturate=True))
    return call.result(mode="stale", fwd=replace(fwd, o=narrow))


def _previous_row(call: Call) -> tuple[Num, Num]:
    shift, delta = call.result()
    return shift, with_array(delta, lambda x: np.roll(x, 1, axis=0))


def _zero(call: Call) -> tuple[Num, Num]:
    shift, delta = call.result()
    return shift, with_array(delta, np.zeros_like)


def _added(call: Call) -> Any:
    shift, delta = call["taken"]
    return call.result(taken=(shift, -delta))


def _without_last_window(call: Call) -> Any:
    return call.result(lanes=call["lanes"][:, :-1])


def _dk_scaled(times: int) -> Mutation:
    """dK with the softmax scale to another power than 1."""

    def step(call: Call) -> Any:
        factor = abs(call.case.problem.scale) ** times if call["name"] == "dk" else 1.0
        return call.result(x=call["x"] * factor)

    return Mutation({"run.stored": step})


def _without_first_keys(outputs: Outputs, case: Case) -> Outputs:
    """dK whose first half of the keys was never written."""
    dk = outputs.dk.copy()
    dk[:, : dk.shape[1] // 2] = 0
    return replace(outputs, dk=dk)


def _unscaled(call: Call) -> Any:
    return call.result(head=replace(call["head"], scale=1.0))


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
