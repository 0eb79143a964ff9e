"""Lengths far beyond a few tiles: every ring, phase and counter of a kernel goes round many times.

The other families end after five tiles of 64 keys (two variants of ``lengths`` after ten), before
most rings of stages are used twice. Here

| what goes round | is met by |
|---|---|
| a ring of stages, its phase bit; promotion windows | 10 to 128 tiles of keys, also odd numbers |
| the same along the queries, for dK and dV | up to 64 tiles of queries |
| a persistent block that takes a second tile | more pairs of batch and head than a GPU has SMs |
| a batch stride that is right for batch 0 and 1 only | three batches, five |
| rows that see no key, whole tiles of them | more queries than keys, by several tiles |
| a split of the keys over blocks | three queries, thousands of keys |

Elsewhere: lengths beyond 8,191 and counts of heads (``counts``, ``positive-v/keys-64k``), offsets
beyond 2^31 elements (``layout/far-rows``).
"""

from __future__ import annotations

from typing import Any

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.family import Variant
from dmverify.conformance.families.tensors import as_inputs, gaussian
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem

# Name: queries, keys, query heads, key heads, and the problem's fields that are not the family's.
_SIZES: dict[str, tuple[int, int, int, int, dict[str, Any]]] = {
    "n1088": (1088, 1088, 1, 1, {}),
    "n1088-head-dim-128": (1088, 1088, 2, 1, {"head_dim": 128}),
    "n1088-head-dim-256": (1088, 1088, 1, 1, {"head_dim": 256}),
    "n1088-full-head-dim-128": (1088, 1088, 1, 1, {"head_dim": 128, "causal": False}),
    "n1150-full-head-dim-256": (1150, 1150, 1, 1, {"head_dim": 256, "causal": False}),
    "q450-k1100-group-4": (450, 1100, 4, 1, {}),
    "q129-k1100-group-8": (129, 1100, 8, 1, {"head_dim": 128}),
    "n2048": (2048, 2048, 1, 1, {}),
    "n2048-full": (2048, 2048, 1, 1, {"causal": False}),
    "q3-k4096": (3, 4096, 4, 1, {"head_dim": 128}),
    "q1-k8191-full": (1, 8191, 2, 2, {"causal": False}),
    "q1088-k700": (1088, 700, 1, 1, {}),
    "q4096-k65-full": (4096, 65, 2, 1, {"causal": False}),
    "three-batches": (300, 700, 3, 3, {"batch": 3}),
    "five-batches-full": (130, 577, 6, 2, {"batch": 5, "causal": False}),
    "many-heads": (65, 65, 48, 6, {"batch": 3}),
}

LONG = {
    name: Variant(problem={"queries": q, "keys": k, "heads": h, "kv_heads": g, **others})
    for name, (q, k, h, g, others) in _SIZES.items()
}


def long(draws: Draws, problem: Problem) -> Inputs:
    """Gaussian tensors: every key weighs something, so a tile more or less shows in every row."""
    return as_inputs(gaussian(draws, problem))
