"""Narrow faults that three factor levels decide, and of large sizes: full has to reject each.

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

TRIPLES = (
    Narrow(
        "d128-no-mask-batch-2",
        "D = 128, no mask, 2 batches",
        lambda p: p.head_dim == 128 and not p.causal and p.batch == 2,
        "last-entry",
    ),
    Narrow(
        "d64-causal-group-12",
        "D = 64, causal, groups of 12",
        lambda p: p.head_dim == 64 and p.causal and p.group == 12,
        "rolled-heads",
    ),
    Narrow(
        "d256-scale-no-mask",
        "D = 256, own scale, no mask",
        lambda p: p.head_dim == 256 and own(p) and not p.causal,
        "doubled",
    ),
    Narrow(
        "d96-left-63-causal",
        "D = 96, 63 keys left, causal",
        lambda p: p.head_dim == 96 and left(p) == 63 and p.causal,
        "last-key",
    ),
    Narrow(
        "batch-3-heads-3-no-mask",
        "3 batches, 3 key heads, no mask",
        lambda p: p.batch == 3 and p.kv_heads == 3 and not p.causal,
        "last-head",
    ),
    Narrow(
        "negative-d256-no-mask",
        "a negative scale, D = 256, no mask",
        lambda p: negative(p) and p.head_dim == 256 and not p.causal,
        "times-minus-3",
    ),
    Narrow(
        "one-more-d128-causal",
        "Nq = Nk + 1, D = 128, causal",
        lambda p: p.queries == p.keys + 1 and p.head_dim == 128 and p.causal,
        "last-row",
    ),
    Narrow(
        "few-group-12-no-mask",
        "half as many queries, groups of 12, no mask",
        lambda p: fewer(p) and p.group == 12 and not p.causal,
        "last-head",
    ),
    Narrow(
        "tiles-5-group-5-d32",
        "5 key tiles, groups of 5, D = 32",
        lambda p: tiles(p) == 5 and p.group == 5 and p.head_dim == 32,
        "second-key-tile",
    ),
    Narrow(
        "zero-causal-d128",
        "scale 0, causal, D = 128",
        lambda p: zero(p) and p.causal and p.head_dim == 128,
        "doubled",
    ),
    Narrow(
        "many-queries-causal-d256",
        "twice as many queries, causal, D = 256",
        lambda p: more(p) and p.causal and p.head_dim == 256,
        "last-row",
    ),
    Narrow(
        "left-1-batch-2-group-2",
        "1 key left, 2 batches, groups of 2",
        lambda p: left(p) == 1 and p.batch == 2 and p.group == 2,
        "last-key",
    ),
    Narrow(
        "tiles-2-heads-5-scale",
        "2 key tiles, 5 key heads, own scale",
        lambda p: tiles(p) == 2 and p.kv_heads == 5 and own(p),
        "last-head",
    ),
    Narrow(
        "equal-group-6-d128",
        "Nq = Nk, groups of 6, D = 128",
        lambda p: p.queries == p.keys and p.group == 6 and p.head_dim == 128,
        "rolled-heads",
    ),
    Narrow(
        "heads-3-group-16-batch-3",
        "3 key heads, groups of 16, 3 batches",
        lambda p: p.kv_heads == 3 and p.group == 16 and p.batch == 3,
        "last-entry",
    ),
)

SIZES = (
    Narrow(
        "many-heads",
        "more than 65,535 pairs of batch and head",
        lambda p: p.batch * p.heads > 65_535,
        "last-entry",
    ),
    Narrow("long-keys", "2^16 keys and more", lambda p: p.keys >= 65_536, "last-key"),
    Narrow("longest-keys", "more than 2^16 keys", lambda p: p.keys > 65_536, "last-key"),
    Narrow(
        "rings-d128",
        "9 key tiles and more, D = 128",
        lambda p: tiles(p) >= 9 and p.head_dim == 128,
        "last-key",
    ),
)
