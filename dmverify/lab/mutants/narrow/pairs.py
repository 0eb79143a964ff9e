"""Narrow faults that one or two factor levels decide: smoke has to reject each.

Written without a look at the levels' cases.
"""

from __future__ import annotations

from dmverify.lab.mutants.narrow.conditions import (
    fewer,
    left,
    more,
    negative,
    own,
    tiles,
    zero,
)
from dmverify.lab.mutants.narrow.fault import Narrow

PAIRS = (
    Narrow(
        "d128-no-mask",
        "D = 128 without a mask",
        lambda p: p.head_dim == 128 and not p.causal,
        "doubled",
    ),
    Narrow(
        "d256-no-mask",
        "D = 256 without a mask",
        lambda p: p.head_dim == 256 and not p.causal,
        "times-minus-3",
    ),
    Narrow(
        "d96-group-3",
        "D = 96, groups of 3",
        lambda p: p.head_dim == 96 and p.group == 3,
        "rolled-heads",
    ),
    Narrow(
        "d32-batch-3",
        "D = 32, 3 batches",
        lambda p: p.head_dim == 32 and p.batch == 3,
        "last-entry",
    ),
    Narrow(
        "d96-batch-2",
        "D = 96, 2 batches",
        lambda p: p.head_dim == 96 and p.batch == 2,
        "last-entry",
    ),
    Narrow(
        "group-5-causal", "groups of 5, causal", lambda p: p.group == 5 and p.causal, "last-head"
    ),
    Narrow(
        "group-6-no-mask",
        "groups of 6, no mask",
        lambda p: p.group == 6 and not p.causal,
        "rolled-heads",
    ),
    Narrow(
        "group-12-left-63",
        "groups of 12, 63 keys left",
        lambda p: p.group == 12 and left(p) == 63,
        "last-head",
    ),
    Narrow(
        "group-16-d256",
        "groups of 16, D = 256",
        lambda p: p.group == 16 and p.head_dim == 256,
        "doubled",
    ),
    Narrow(
        "heads-5-batch-2",
        "5 key heads, 2 batches",
        lambda p: p.kv_heads == 5 and p.batch == 2,
        "last-head",
    ),
    Narrow(
        "heads-3-d128",
        "3 key heads, D = 128",
        lambda p: p.kv_heads == 3 and p.head_dim == 128,
        "last-head",
    ),
    Narrow(
        "one-more-query",
        "Nq = Nk + 1, 63 keys left",
        lambda p: p.queries == p.keys + 1 and left(p) == 63,
        "last-row",
    ),
    Narrow(
        "one-fewer-d256",
        "Nq = Nk - 1, D = 256",
        lambda p: p.queries == p.keys - 1 and p.head_dim == 256,
        "last-row",
    ),
    Narrow(
        "long-queries",
        "twice as many queries, no mask",
        lambda p: more(p) and not p.causal,
        "last-row",
    ),
    Narrow(
        "short-group-8",
        "half as many queries, groups of 8",
        lambda p: fewer(p) and p.group == 8,
        "last-head",
    ),
    Narrow(
        "tiles-5-d128",
        "5 key tiles, D = 128",
        lambda p: tiles(p) == 5 and p.head_dim == 128,
        "second-key-tile",
    ),
    Narrow(
        "tiles-3-batch-3",
        "3 key tiles, 3 batches",
        lambda p: tiles(p) == 3 and p.batch == 3,
        "last-entry",
    ),
    Narrow(
        "tiles-2-d256",
        "2 key tiles, D = 256",
        lambda p: tiles(p) == 2 and p.head_dim == 256,
        "second-key-tile",
    ),
    Narrow(
        "scale-no-mask",
        "an own scale without a mask",
        lambda p: own(p) and not p.causal,
        "times-minus-3",
    ),
    Narrow(
        "scale-d256", "an own scale at D = 256", lambda p: own(p) and p.head_dim == 256, "lse-shift"
    ),
    Narrow(
        "negative-d128",
        "a negative scale at D = 128",
        lambda p: negative(p) and p.head_dim == 128,
        "doubled",
    ),
    Narrow(
        "negative-group-7",
        "a negative scale, groups of 7",
        lambda p: negative(p) and p.group == 7,
        "doubled",
    ),
    Narrow("zero-batch-2", "scale 0, 2 batches", lambda p: zero(p) and p.batch == 2, "last-entry"),
    Narrow(
        "zero-heads-2", "scale 0, 2 key heads", lambda p: zero(p) and p.kv_heads == 2, "last-head"
    ),
    Narrow(
        "left-1-d128",
        "1 key left, D = 128",
        lambda p: left(p) == 1 and p.head_dim == 128,
        "last-key",
    ),
    Narrow(
        "left-0-no-mask",
        "whole key tiles, no mask",
        lambda p: p.keys > 0 and left(p) == 0 and not p.causal,
        "last-key",
    ),
    Narrow(
        "left-0-heads-5",
        "whole key tiles, 5 key heads",
        lambda p: p.keys > 0 and left(p) == 0 and p.kv_heads == 5,
        "last-head",
    ),
    Narrow(
        "batch-3-more-queries",
        "3 batches, many queries",
        lambda p: p.batch == 3 and more(p),
        "last-entry",
    ),
    Narrow(
        "group-2-tiles-5",
        "groups of 2, 5 key tiles",
        lambda p: p.group == 2 and tiles(p) == 5,
        "second-key-tile",
    ),
    Narrow(
        "group-4-scale", "groups of 4, an own scale", lambda p: p.group == 4 and own(p), "doubled"
    ),
    Narrow(
        "heads-2-left-63",
        "2 key heads, 63 keys left",
        lambda p: p.kv_heads == 2 and left(p) == 63,
        "last-key",
    ),
    Narrow(
        "d64-group-16",
        "D = 64, groups of 16",
        lambda p: p.head_dim == 64 and p.group == 16,
        "rolled-heads",
    ),
    Narrow(
        "pairs-of-tiles",
        "more head and key tile pairs than 132 SMs",
        lambda p: p.batch * p.kv_heads * tiles(p) > 132,
        "last-head",
    ),
    Narrow(
        "twice-the-blocks",
        "more than 264 pairs of batch, head and key tile",
        lambda p: p.batch * p.kv_heads * tiles(p) > 264,
        "last-key",
    ),
    Narrow(
        "decode",
        "at most 8 queries over 1,024 keys and more, grouped heads",
        lambda p: 0 < p.queries <= 8 and p.keys >= 1_024 and p.group > 1,
        "last-row",
    ),
    Narrow(
        "one-query",
        "one query over 1,024 keys and more",
        lambda p: p.queries == 1 and p.keys >= 1_024,
        "lse-shift",
    ),
)
