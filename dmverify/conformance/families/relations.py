"""Families in which variants of one seed are related, and duplicate tokens.

permutation: the same tensors with heads, batches, keys or queries in another order; ``orders``
gives it, so that a check can put outputs back. Query heads move with their key head.

future: ``base``, and variants in which keys and values from ``change_from`` on are other numbers.
Under a causal mask the rows before must not change, up to what a shared scale or mean lets through.

duplicates: tokens that repeat, so that rows and columns of every matrix must repeat.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.elementary import F64
from dmverify.conformance.families.family import Variant
from dmverify.conformance.families.tensors import as_inputs, gaussian
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem

BLOCK = 128  # the largest block of rows that shares a scale

PERMUTATION = {
    name: Variant({"moved": name}) for name in ("base", "batch", "heads", "keys", "queries")
}
FUTURE = {
    "base": Variant({"change": 0.0}),
    "other": Variant({"change": 1.0}),
    "larger": Variant({"change": 1000.0}),
}
DUPLICATES = {
    "all": Variant({"period": 1}),
    "pairs": Variant({"repeat": 2}),
    "blocks": Variant({"period": 64}),
    "keys-only": Variant({"period": 1, "names": ("k", "v")}),
}


def permuted(draws: Draws, problem: Problem, *, moved: str) -> Inputs:
    """The base tensors, one axis reordered."""
    made = gaussian(draws, problem)
    for name, order in orders(draws, problem, moved=moved).items():
        made[name] = np.take(made[name], order, axis=AXES[moved])
    return as_inputs(made)


AXES = {"base": 0, "batch": 0, "queries": 1, "keys": 1, "heads": 2}


def orders(draws: Draws, problem: Problem, *, moved: str) -> dict[str, npt.NDArray[np.int64]]:
    """Per tensor, which index of the base each place of the moved axis holds."""
    if moved == "batch":
        return dict.fromkeys(("q", "k", "v", "do"), draws.order("batch", problem.batch))
    if moved == "heads":
        narrow = draws.order("heads", problem.kv_heads)
        wide = (narrow[:, None] * problem.group + np.arange(problem.group)).reshape(-1)
        return {"q": wide, "do": wide, "k": narrow, "v": narrow}
    if moved == "keys":
        return dict.fromkeys(("k", "v"), draws.order("keys", problem.keys))
    if moved == "queries":
        return dict.fromkeys(("q", "do"), draws.order("queries", problem.queries))
    return {}


def future(draws: Draws, problem: Problem, *, change: float) -> Inputs:
    """Keys and values from ``change_from`` on replaced by others, ``change`` times as large."""
    made = gaussian(draws, problem)
    first = change_from(problem)
    for name in ("k", "v") if change else ():
        other = draws.normal(f"other {name}", made[name].shape)
        made[name][:, first:] = change * other[:, first:]
    return as_inputs(made)


def change_from(problem: Problem) -> int:
    """The first key that differs: a multiple of the largest block in the second half."""
    return -(-problem.keys // (2 * BLOCK)) * BLOCK


def duplicates(
    draws: Draws,
    problem: Problem,
    *,
    period: int = 0,
    repeat: int = 1,
    names: tuple[str, ...] = ("q", "k", "v", "do"),
) -> Inputs:
    """Token n is token n mod ``period``, or n // ``repeat``."""
    made = gaussian(draws, problem)
    for name in names:
        made[name] = _repeated(made[name], period, repeat)
    return as_inputs(made)


def _repeated(x: F64, period: int, repeat: int) -> F64:
    tokens = np.arange(x.shape[1])
    return x[:, tokens % period if period else tokens // repeat]
