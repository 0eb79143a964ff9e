"""Faults of where tensors are read: head grouping, tiles, strides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.mutation import Mutation, Step
from dmverify.lab.mutants.emulator.shared import WINDOW, first_hidden, reading, seeing
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.num import Num
from dmverify.spec.attention.operands import BlockScaled, Head, Prepared
from dmverify.spec.case import F32, Case
from dmverify.spec.namespace import Array
from dmverify.spec.problem import Problem


def _without_second_tile(p: Problem, i: Array, j: Array) -> Array:
    return (j < first_hidden(p, i)) & (j // WINDOW != 1)


def _modulo(original: Step, case: Case, self: Prepared, a: Arithmetic, b: int, h: int) -> Head:
    head: Head = original(self, a, b, h)
    other = original(self, a, b, h % self.problem.kv_heads * self.problem.group)
    return replace(head, k=other.k, v=other.v, k_mean=other.k_mean)


@dataclass(frozen=True)
class _Acquainted(Head):
    """A head that also knows the keys of another."""

    stranger: BlockScaled


def _with_stranger(
    original: Step, case: Case, self: Prepared, a: Arithmetic, b: int, h: int
) -> Head:
    head: Head = original(self, a, b, h)
    other = original(self, a, b, (h + self.problem.group) % self.problem.heads)
    return _Acquainted(**vars(head), stranger=other.k)


def _keys_of_stranger(original: Step, case: Case, order: Any, head: _Acquainted, ds: Any) -> Num:
    found: Num = original(order, replace(head, k=head.stranger), ds)
    return found


def _only_last_head(original: Step, case: Case, weights: Any, rows: Any, found: Num) -> Num:
    last: Num = original(weights, rows, found * 0.0)
    return last


def _wrapped(x: F32) -> F32:
    return x[:, np.arange(x.shape[1]) % WINDOW]


def _first_batch(x: F32) -> F32:
    return np.broadcast_to(x[:1], x.shape)


def _as_stored(x: F32) -> F32:
    """Memory order (B, H, N, D) taken for (B, N, H, D)."""
    return np.ascontiguousarray(x.swapaxes(1, 2)).reshape(x.shape)


MUTATIONS = {
    "gqa-modulo": Mutation({"operands.Prepared.head": _modulo}),
    "gqa-sum-overwritten": Mutation({"tokens.token_chain": _only_last_head}),
    "k-transpose-wrong-head": Mutation(
        {
            "operands.Prepared.head": _with_stranger,
            "windows.query_gradient": _keys_of_stranger,
        }
    ),
    "tile-skipped": seeing(_without_second_tile),
    "offset-wrap": reading(_wrapped, "k"),
    "batch-stride": reading(_first_batch, "v"),
    "strides-ignored": reading(_as_stored, "q", "k", "v", "do"),
}
"""By the mutant's id."""
