"""Faults of the sums that normalise, and of moving them to another reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmverify.lab.mutants import cases as on
from dmverify.lab.mutants.altered import altered
from dmverify.lab.mutants.fault import Fault, Plant, Step
from dmverify.lab.mutants.plants import last_window
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.case import Case
from dmverify.spec.contracts import Contract
from dmverify.spec.namespace import Array


def _last_is_zero(original: Step, case: Case, *args: Any) -> Array:
    sums = original(*args).copy()
    sums[:, last_window(case)] = 0
    return sums


def _keeps(name: str) -> Step:
    """The rescale of one running sum is forgotten."""

    def step(original: Step, case: Case, a: Arithmetic, *args: Any) -> Any:
        run = args[3]
        before = getattr(run, name)
        beta = original(a, *args)
        setattr(run, name, before)
        return beta

    return step


def _moved_twice(original: Step, case: Case, a: Arithmetic, *args: Any) -> tuple[Array, Array]:
    reference, factor = original(a, *args)
    return reference, a.mul(factor, factor)


def _first_reference_stale(
    original: Step, case: Case, a: Arithmetic, contract: Contract, *args: Any
) -> Any:
    stale = altered(a, ceil=lambda base, x: np.zeros_like(x))
    return original(stale if args[-1] == 0 else a, contract, *args)


ROWS = (
    Fault(
        "normaliser-last-tile",
        "normaliser",
        "the sum of the codes lacks the last window",
        "o",
        Plant({"forward._code_sums": _last_is_zero}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "row-sum-last-tile",
        "normaliser",
        "the row sum lacks the last window",
        "lse",
        Plant({"forward.row_sum": _last_is_zero}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "normaliser-unrounded",
        "normaliser",
        "O is divided by the sum of the unrounded P",
        "o",
        Plant(contract={"normaliser": "unrounded"}),
        (on.CONSTANT_V,),
    ),
    Fault(
        "rescale-skipped",
        "normaliser",
        "O keeps its old reference",
        "o",
        Plant({"forward._advance": _keeps("o")}),
        (on.ZIGZAG,),
    ),
    Fault(
        "rescale-twice",
        "normaliser",
        "the row sum is moved to the saved reference twice",
        "lse",
        Plant({"forward._saved": _moved_twice}),
        (on.GAUSSIAN,),
    ),
    Fault(
        "row-sum-rescale-skipped",
        "normaliser",
        "the row sum keeps its old reference",
        "lse",
        Plant({"forward._advance": _keeps("l")}),
        (on.ZIGZAG,),
    ),
    Fault(
        "first-reference-stale",
        "normaliser",
        "the first window does not set the reference",
        "o",
        Plant({"forward._advance": _first_reference_stale}),
        (on.LARGE_LOGITS,),
    ),
)
"""Faults of this part."""
