"""Where tensors are read: head grouping, tiles, strides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.mutation import Call, Mutation
from dmverify.lab.mutants.emulator.shared import WINDOW, first_hidden, reading, seeing
from dmverify.spec.attention.operands import BlockScaled, Head
from dmverify.spec.case import F32
from dmverify.spec.namespace import Array
from dmverify.spec.problem import Problem


def _without_second_tile(p: Problem, i: Array, j: Array) -> Array:
    return (j < first_hidden(p, i)) & (j // WINDOW != 1)


def _modulo(call: Call) -> Any:
    problem, head = call["self"].problem, call.result()
    other = call.result(head=call["head"] % problem.kv_heads * problem.group)
    return replace(head, k=other.k, v=other.v, k_mean=other.k_mean)


@dataclass(frozen=True)
class _Acquainted(Head):
    """A head that also knows the keys of another."""

    stranger: BlockScaled


def _with_stranger(call: Call) -> Head:
    problem = call["self"].problem
    other = call.result(head=(call["head"] + problem.group) % problem.heads)
    return _Acquainted(**vars(call.result()), stranger=other.k)


def _keys_of_stranger(call: Call) -> Any:
    head = call["head"]
    return call.result(head=replace(head, k=head.stranger))


def _only_last_head(call: Call) -> Any:
    return call.result(found=call["found"] * 0.0)


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
