"""The table of families: name, the part of the specification it stresses, the fault it targets.

To add one, write a builder and its variants, and add a row here.
"""

from __future__ import annotations

from dataclasses import replace

from dmverify.conformance.families import (
    attained,
    blocks,
    counts,
    deciding,
    exactness,
    exponentials,
    indexing,
    layouts,
    lengths,
    logits,
    long,
    relations,
    rounding,
    specials,
    ties,
    values,
    witnesses,
)
from dmverify.conformance.families.family import Family
from dmverify.spec.problem import Problem

# Two full windows and two tokens, a group of two heads: tails and head grouping are always met.
SMALL = Problem(batch=1, heads=2, kv_heads=1, queries=130, keys=130, head_dim=64)
# Several blocks of each operand, the last one ragged.
BLOCKS = replace(SMALL, heads=1, queries=260, keys=260)
SQUARE = replace(SMALL, heads=1, queries=64, keys=64, causal=False)
# Whole tiles that every query sees, two heads apart, and a scale that keeps logits of codes small.
TILE = replace(SQUARE, heads=2, kv_heads=2, queries=128, softmax_scale=2.0**-12)
# As many query heads as the largest block has rows, and as many key heads as a tile has keys.
EVERY_ROW = replace(TILE, heads=128, kv_heads=64, queries=128, keys=64, softmax_scale=0.125)

_ROWS = (
    Family(
        "gaussian",
        "attention.windows",
        "errors of ordinary size on ordinary data: a wrong step that is no corner case",
        (),
        SMALL,
        values.GAUSSIAN,
        values.gaussian_heads,
    ),
    Family(
        "constant-v",
        "attention.windows",
        "a normaliser that does not match the codes: O leaves the constant that v is",
        ("offset",),
        SMALL,
        values.CONSTANT,
        values.constant_v,
    ),
    Family(
        "positive-v",
        "attention.window_products",
        "an accumulator that truncates without promotion: same-sign sums lose size",
        ("offset",),
        replace(SMALL, heads=1),
        values.POSITIVE,
        values.positive_v,
    ),
    Family(
        "offset",
        "attention.delta",
        "a stale delta, missing centring: an offset multiplies errors that average out without it",
        ("offset",),
        SMALL,
        values.OFFSETS,
        values.offset,
    ),
    Family(
        "rows",
        "attention.windows",
        "a row maximum or rescale that is late, stale, doubled, or taken over the wrong keys",
        (),
        replace(SMALL, queries=200, keys=200),
        logits.ROWS,
        logits.rows,
    ),
    Family(
        "logit-size",
        "attention.windows",
        "an LSE or exponent argument that loses its bits or its sign, or overflows",
        (),
        SMALL,
        logits.SIZES,
        logits.sizes,
    ),
    Family(
        "zero-blocks",
        "scaling.rules",
        "a zero block that gives NaN, a stale scale, or disturbs its neighbours",
        ("underflow",),
        BLOCKS,
        blocks.ZERO,
        blocks.zero_blocks,
    ),
    Family(
        "tiny-amax",
        "scaling.rules",
        "denormal scales: codes that overflow, NaN where the contract saturates, flushed results",
        ("underflow",),
        BLOCKS,
        blocks.TINY,
        blocks.tiny,
    ),
    Family(
        "distinct-scales",
        "scaling.geometry",
        "the scale of another block, transposed, inverted, reused or dropped",
        (),
        BLOCKS,
        blocks.DISTINCT,
        blocks.distinct,
    ),
    Family(
        "tagged",
        "attention.operands",
        "a wrong index: the number that arrives names the batch, head and token it came from",
        ("tagged",),
        SMALL,
        indexing.TAGGED,
        indexing.tagged,
    ),
    Family(
        "rounding",
        "formats.encode",
        "ties not to even, values beyond 448, flushed subnormals, lost signs of zero",
        (),
        SMALL,
        rounding.ROUNDING,
        rounding.rounding_points,
    ),
    Family(
        "cast-ties",
        "attention.casts",
        "ties in the casts of P and dS that go another way than to the even code",
        (),
        SQUARE,
        ties.TIES,
        ties.ties,
    ),
    Family(
        "deciding",
        "attention.casts",
        "a maximum that leaves out a row, a key, a channel or a term: each decides somewhere",
        (),
        EVERY_ROW,
        deciding.DECIDING,
        deciding.deciding,
    ),
    Family(
        "exponentials",
        "attention.windows",
        "an exponential that is good to a few digits only, where sums and dots hide nothing",
        (),
        TILE,
        exponentials.EXPONENTIALS,
        exponentials.exponentials,
    ),
    Family(
        "outliers",
        "scaling.quantise",
        "a scale that is shared too widely, or taken over the wrong elements",
        (),
        SMALL,
        values.OUTLIERS,
        values.outliers,
    ),
    Family(
        "special",
        "scaling.rules",
        "NaN swallowed or spread, infinity made finite, memory read that is not the tensor's",
        (),
        SMALL,
        specials.SPECIAL,
        specials.specials,
    ),
    Family(
        "lengths",
        "problem",
        "tails, masks that are top-left or off by one, head grouping, empty extents",
        ("ragged",),
        replace(SMALL, queries=65, keys=65),
        lengths.LENGTHS,
        lengths.lengths,
    ),
    Family(
        "long",
        "attention.sums",
        "a ring of stages, a phase, a counter or a stride that is right until it is used again: "
        "the second round, the third batch, the second tile of a persistent block",
        ("ragged", "on-demand"),
        replace(SMALL, heads=1),
        long.LONG,
        long.long,
    ),
    Family(
        "counts",
        "problem",
        "a grid, a counter or a persistent loop that is right for the number of heads, tiles or "
        "tokens of usual tests",
        ("ragged",),
        SMALL,
        counts.COUNTS,
        counts.counts,
    ),
    Family(
        "layout",
        "case",
        "strides, offsets or alignment that a kernel ignores; 32-bit offsets",
        ("strided",),
        replace(SMALL, heads=4, kv_heads=2),
        layouts.LAYOUTS,
        layouts.layouts,
    ),
    Family(
        "duplicates",
        "attention.operands",
        "order or position leaking into values: equal tokens must get equal results",
        (),
        SMALL,
        relations.DUPLICATES,
        relations.duplicates,
    ),
    Family(
        "integers",
        "attention.window_products",
        "any lost term, double count or wrong factor: nothing rounds, so equality is exact",
        ("exact",),
        SQUARE,
        exactness.INTEGERS,
        exactness.integers,
    ),
    Family(
        "permutation",
        "attention.operands",
        "results that depend on where a head, batch, key or query lies",
        ("pairs",),
        replace(SMALL, batch=2, heads=4, kv_heads=2, causal=False),
        relations.PERMUTATION,
        relations.permuted,
    ),
    Family(
        "future",
        "problem",
        "a causal mask that lets later tokens through",
        ("pairs",),
        replace(SMALL, heads=1, queries=300, keys=300),
        relations.FUTURE,
        relations.future,
    ),
    Family(
        "cancelling-delta",
        "attention.delta",
        "a delta formed from rounded outputs: what should cancel to 0 leaves rounding errors",
        (),
        replace(SMALL, causal=False),
        exactness.CANCELLING,
        exactness.cancelling,
    ),
    Family(
        "attained",
        "ledger",
        "an error just above what a contract allows: terms of the residual at their bounds",
        (),
        replace(SQUARE, heads=1),
        attained.ATTAINED,
        attained.attained,
    ),
    Family(
        "witnesses",
        "lemmas",
        "answers that bounds slightly too strong would reject: numbers where bounds are tight",
        (),
        SMALL,
        witnesses.WITNESSES,
        witnesses.witnessed,
    ),
)

FAMILIES = {family.name: family for family in _ROWS}
"""Every family whose inputs are drawn, by name. Captures of trained models are ``capture/...``."""
