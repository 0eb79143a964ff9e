"""Faults of LSE: base, offset, mean, and where it is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.altered import with_operations
from dmverify.lab.mutants.emulator.mutation import Mutation, Step
from dmverify.lab.mutants.emulator.shared import storing
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.operands import Head
from dmverify.spec.attention.softmax import OFFSET
from dmverify.spec.case import F32, Case
from dmverify.spec.contracts import Contract
from dmverify.spec.namespace import Array


def _lower_reference(
    original: Step, case: Case, a: Arithmetic, contract: Contract, head: Head, *args: Any
) -> Array:
    reference, total = args
    return original(a, contract, head, reference - np.float32(OFFSET), total)


def _without_mean(
    original: Step, case: Case, a: Arithmetic, contract: Contract, *args: Any
) -> Array:
    return original(a, replace(contract, centre_k="none"), *args)


def _by_position(lse: F32) -> F32:
    """Stored (position, head) and read (head, position)."""
    return np.ascontiguousarray(lse.swapaxes(1, 2)).reshape(lse.shape)


MUTATIONS = {
    "lse-base-2": Mutation(
        {"forward._lse": with_operations(ln2=lambda base: np.ones((1, 1), np.float32))}
    ),
    "lse-natural-log": Mutation({"forward._lse": with_operations(log2=lambda base, x: np.log(x))}),
    "lse-offset-missing": Mutation({"forward._lse": _lower_reference}),
    "lse-mean-missing": Mutation({"forward._lse": _without_mean}),
    "lse-head-stride": storing(_by_position, "lse"),
    "lse-block-index": storing(lambda lse: np.roll(lse, 64, axis=-1), "lse"),
}
"""By the mutant's id."""
