"""Faults of the forward's P: its cast, and the maximum that it is relative to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dmverify.lab.mutants.emulator.altered import (
    cast_toward_zero,
    multiply_then_add,
    with_operations,
)
from dmverify.lab.mutants.emulator.mutation import Mutation, Step
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.products import Coded
from dmverify.spec.attention.softmax import OFFSET, Scores
from dmverify.spec.case import Case
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import E4M3, E5M2, FloatFormat
from dmverify.spec.namespace import Array


def _cast_e5m2(base: Arithmetic, x: Array, fmt: FloatFormat, *, site: str, saturate: bool) -> Array:
    return E4M3.round(E5M2.round(x, saturate=True), saturate=True)


def _normalised(original: Step, case: Case, a: Arithmetic, contract: Contract, e: Array) -> Coded:
    total = e.sum(2, keepdims=True)
    coded: Coded = original(a, contract, a.div(e, np.where(total == 0, np.float32(1), total)))
    return coded


def _of_two_windows(
    original: Step, case: Case, a: Arithmetic, contract: Contract, s: Scores
) -> Array:
    b = original(a, contract, s)
    rows, windows, _ = b.shape
    seen = np.where(s.live, b, np.float32(-np.inf)).reshape(rows, windows // 2, 2)
    both = np.repeat(seen.max(2), 2, axis=1)[:, :, None]
    return np.where(s.live, both, b)


def _of_first_window(
    original: Step, case: Case, a: Arithmetic, contract: Contract, s: Scores
) -> Array:
    b = original(a, contract, s)
    return np.where(s.live & s.live[:, :1], b[:, :1], b)


def _floored(original: Step, case: Case, a: Arithmetic, contract: Contract, s: Scores) -> Array:
    b = original(a, contract, s)
    return np.where(s.live, np.maximum(b, np.float32(-OFFSET)), b)


def _over_masked(original: Step, case: Case, a: Arithmetic, contract: Contract, s: Scores) -> Array:
    return original(a, contract, replace(s, seen=np.broadcast_to(s.live, s.seen.shape)))


MUTATIONS = {
    "p-offset-missing": Mutation(constants={"softmax.OFFSET": 0.0}),
    "p-stale-maximum": Mutation({"forward.references": _of_first_window}),
    "p-toward-zero": Mutation({"forward.encode": with_operations(cast=cast_toward_zero)}),
    "p-e5m2": Mutation({"forward.encode": with_operations(cast=_cast_e5m2)}),
    "p-normalised-first": Mutation({"forward.encode": _normalised}),
    "p-basis-of-128-keys": Mutation({"forward.references": _of_two_windows}),
    "maximum-floored": Mutation({"forward.references": _floored}),
    "maximum-rounded-twice": Mutation(
        {"forward.references": with_operations(fma=multiply_then_add)}
    ),
    "maximum-over-masked": Mutation({"forward.references": _over_masked}),
}
"""By the mutant's id."""
