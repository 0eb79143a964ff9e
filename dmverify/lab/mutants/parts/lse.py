"""Faults of LSE: base, offset, mean, and where it is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.lab.mutants import cases as on
from dmverify.lab.mutants.altered import with_operations
from dmverify.lab.mutants.fault import Fault, Plant, Step
from dmverify.lab.mutants.plants import storing
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


ROWS = (
    Fault(
        "lse-base-2",
        "LSE",
        "LSE is a base-2 logarithm",
        "lse",
        Plant({"forward._lse": with_operations(ln2=lambda base: np.ones((1, 1), np.float32))}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "lse-natural-log",
        "LSE",
        "the logarithm of the row sum is natural where base 2 is due",
        "lse",
        Plant({"forward._lse": with_operations(log2=lambda base, x: np.log(x))}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "lse-offset-missing",
        "LSE",
        "the offset 2^8 of P stays in LSE",
        "lse",
        Plant({"forward._lse": _lower_reference}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "lse-mean-missing",
        "LSE",
        "what centring took off the logits is not given back",
        "lse",
        Plant({"forward._lse": _without_mean}),
        (on.K_OFFSET,),
    ),
    Fault(
        "lse-head-stride",
        "LSE",
        "LSE is stored with the strides of (position, head)",
        "lse",
        storing(_by_position, "lse"),
        (on.GROUPED,),
    ),
    Fault(
        "lse-block-index",
        "LSE",
        "every block of 64 rows takes the LSE of the block before",
        "lse",
        storing(lambda lse: np.roll(lse, 64, axis=-1), "lse"),
        (on.GAUSSIAN,),
    ),
)
"""Faults of this part."""
