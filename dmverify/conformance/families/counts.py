"""Counts and sizes that few problems have and many kernels stumble over, each made cheap.

| variant | many | the fault it targets |
|---|---|---|
| parts-133, parts-265 | pairs of batch and key head | a persistent block's second, third part |
| key-tiles-135, query-tiles-135 | tiles of all heads together | the same, counted by tiles |
| decode-... | keys for one to eight queries, in groups | a split of the keys over blocks |
| keys-2^17, queries-2^17 | tokens | 16-bit counters and offsets |
| batches-2^16, heads-2^16 | batches, heads | a grid's y and z, which end at 65,535 |
| kv-8-no-mask, usual-... | none: sizes of models that no level has | a special case for them |

133 is one more than the streaming multiprocessors of an H200, 265 one more than twice as many.
"""

from __future__ import annotations

from typing import Any

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.family import Variant
from dmverify.conformance.families.tensors import as_inputs, gaussian
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem

LARGE = ("on-demand",)


def _variant(
    parts: tuple[int, int, int], lengths: tuple[int, int], flags: tuple[str, ...] = (), **other: Any
) -> Variant:
    """Batch, key heads and group; queries and keys."""
    batch, kv_heads, group = parts
    sizes = {"batch": batch, "heads": kv_heads * group, "kv_heads": kv_heads}
    return Variant(
        problem={**sizes, "queries": lengths[0], "keys": lengths[1], **other}, flags=flags
    )


FULL: dict[str, Any] = {"causal": False}
COUNTS = {
    "parts-133": _variant((19, 7, 1), (3, 5)),
    "parts-265": _variant((53, 5, 1), (2, 3), head_dim=128, **FULL),
    "key-tiles-135": _variant((3, 9, 1), (2, 319)),
    "query-tiles-135": _variant((3, 9, 1), (319, 3), head_dim=128, **FULL),
    "decode-q1-k1024-group-8": _variant((1, 1, 8), (1, 1024), head_dim=128, **FULL),
    "decode-q3-k1089-group-5": _variant((2, 1, 5), (3, 1089)),
    "decode-q8-k1151-group-2": _variant((1, 2, 2), (8, 1151), head_dim=256),
    "key-tiles-280": _variant((7, 8, 1), (5, 320), LARGE, head_dim=128),
    "query-tiles-280": _variant((7, 4, 2), (320, 5), LARGE, head_dim=64),
    "decode-q1-k4097-group-16": _variant((1, 1, 16), (1, 4097), LARGE, head_dim=128),
    "decode-q7-k2047-group-12": _variant((3, 1, 12), (7, 2047), LARGE),
    "decode-q2-k8192-group-6": _variant((1, 2, 6), (2, 8192), LARGE, head_dim=256, **FULL),
    "keys-2^17": _variant((1, 1, 1), (2, 2**17), LARGE),
    "keys-2^16-head-dim-128": _variant((1, 1, 1), (1, 2**16 + 1), LARGE, head_dim=128, **FULL),
    "queries-2^17": _variant((1, 1, 1), (2**17, 2), LARGE, **FULL),
    "batches-2^16": _variant((2**16 + 1, 1, 2), (1, 2), LARGE),
    "heads-2^16": _variant((1, 2**12 + 1, 16), (1, 2), LARGE, **FULL),
    "kv-8-no-mask": _variant((1, 8, 1), (66, 70), **FULL),
    "usual-batch-4-kv-8-group-4": _variant((4, 8, 4), (33, 70), LARGE, head_dim=128),
    "usual-batch-8-kv-16": _variant((8, 16, 1), (20, 65), LARGE, **FULL),
    "usual-batch-6-kv-10-group-9": _variant((6, 10, 9), (3, 66), LARGE),
    "usual-batch-4-group-10": _variant((4, 1, 10), (64, 64), LARGE, **FULL),
    "usual-kv-6-group-11-tiles-8": _variant((1, 6, 11), (5, 505), LARGE),
    "usual-group-13": _variant((1, 1, 13), (65, 33), LARGE, **FULL),
    "usual-group-14": _variant((1, 1, 14), (33, 65), LARGE),
    "usual-group-15-tiles-7": _variant((1, 1, 15), (9, 440), LARGE, **FULL),
    "usual-head-dim-160": _variant((2, 2, 2), (70, 130), LARGE, head_dim=160),
    "usual-head-dim-192": _variant((2, 2, 2), (70, 130), LARGE, head_dim=192, **FULL),
    "usual-head-dim-224": _variant((2, 2, 2), (70, 130), LARGE, head_dim=224),
    "usual-head-dim-512": _variant((2, 2, 2), (70, 130), LARGE, head_dim=512, **FULL),
    "usual-kv-32": _variant((1, 32, 1), (20, 33), LARGE, head_dim=128),
    "usual-kv-40": _variant((1, 40, 1), (17, 18), LARGE, head_dim=128, **FULL),
    "usual-kv-64-group-2": _variant((1, 64, 2), (9, 10), LARGE),
    "usual-batch-2-kv-96": _variant((2, 96, 1), (5, 12), LARGE, head_dim=128, **FULL),
}


def counts(draws: Draws, problem: Problem) -> Inputs:
    """Gaussian tensors; how many there are is the point."""
    return as_inputs(gaussian(draws, problem))
