"""The cases that errors are planted in: small ones of every family, unlike each other in shape.

| shape | there for |
|---|---|
| pairs | two batch entries, four query heads on two key heads |
| dead | queries that see no key |
| blocks | a block of rows that lies wholly before another: ``future`` |
| many keys | seventeen tiles of keys, for the families whose point is a length or a number |

Captures have their own shapes, and families in which nothing rounds those that allow it.
"""

from __future__ import annotations

from itertools import cycle, islice

from dmverify.conformance.families import FAMILIES
from dmverify.conformance.families.trained import FAMILY as CAPTURES

PAIRS = "batch=2,heads=4,kv_heads=2,queries=40,keys=70,head_dim=32,causal=1"
DEAD = "batch=1,heads=2,kv_heads=2,queries=70,keys=40,head_dim=32,causal=1"
BLOCKS = "batch=1,heads=1,kv_heads=1,queries=130,keys=130,head_dim=32,causal=1"
MANY_KEYS = "batch=1,heads=2,kv_heads=2,queries=12,keys=1088,head_dim=32,causal=1"
SHAPES = (PAIRS, DEAD, BLOCKS)

# Families in which nothing rounds: every row sees every key, and keys are a power of two.
EVEN = (
    "batch=2,heads=4,kv_heads=2,queries=64,keys=64,causal=0",
    "batch=1,heads=1,kv_heads=1,queries=64,keys=128,causal=0",
)
OWN_SHAPES = {
    "cast-ties": EVEN,
    "integers": EVEN,
    "long": (MANY_KEYS, *SHAPES),
    "counts": (MANY_KEYS, *SHAPES),
}

VARIANTS: dict[str, tuple[str, ...]] = {
    "gaussian": ("spread-2", "spread-2", "spread-8"),
    "constant-v": ("third", "tenth", "large"),
    "positive-v": ("short", "short", "short"),
    "offset": ("kv-4", "v-4", "k-16"),
    "rows": ("gap-4", "zigzag", "rising"),
    "logit-size": ("logits-1e2", "negative-scale", "logits-1e4"),
    "zero-blocks": ("rows-v", "single-k", "do-first"),
    "tiny-amax": ("v-2^-90", "k-2^-100", "do-2^-120"),
    "distinct-scales": ("thirds", "powers-of-two", "wide"),
    "tagged": ("own", "groups", "scattered"),
    "rounding": ("ties", "subnormals", "quotient-near-ties"),
    "cast-ties": ("ds", "p", "ds-offset"),
    "deciding": ("spikes", "shift-level", "delta-level"),
    "exponentials": ("tile", "pair", "tile"),
    "outliers": ("channels", "rows", "one-element"),
    "special": ("around", "around", "around", "v-nan"),
    "lengths": ("two-batches", "group-3", "n129"),
    "long": ("n1088", "three-batches", "q1088-k700", "n2048"),
    "counts": ("decode-q3-k1089-group-5", "parts-133", "query-tiles-135", "key-tiles-135"),
    "layout": ("heads-first", "sparse-rows", "misaligned"),
    "duplicates": ("pairs", "keys-only", "blocks"),
    "integers": ("one-sided", "balanced", "two-blocks"),
    "permutation": ("base", "heads", "keys"),
    "future": ("base", "larger", "other"),
    "cancelling-delta": ("offset-4", "offset-0", "causal"),
    "attained": ("few-keys", "one-large", "few-channels"),
    "witnesses": ("logits", "codes", "magnitudes"),
}
"""By family, the variants that take the shapes in turn, where they are not its first ones."""

CAPTURED = (
    "minilm-short/layer0",
    "chars-step400/layer0",
    "chars-step0/layer1",
)


def power_families() -> tuple[str, ...]:
    """Every family, captures last."""
    return (*FAMILIES, CAPTURES)


def cases_of(family: str) -> tuple[str, ...]:
    """Ids of a family's cases, the one that is tried first in front."""
    if family == CAPTURES:
        return tuple(f"{CAPTURES}/{name}@0" for name in CAPTURED)
    shapes = OWN_SHAPES.get(family, SHAPES)
    pairs = zip(VARIANTS.get(family, _first(family, len(shapes))), cycle(shapes), strict=False)
    return tuple(f"{family}/{variant},{shape}@0" for variant, shape in pairs)


def _first(family: str, count: int) -> tuple[str, ...]:
    """``count`` variants: those that every level may ask first, repeated if there are fewer."""
    found = FAMILIES[family]
    asked = sorted(found.variants, key=lambda name: "on-demand" in found.flags_of(name))
    return tuple(islice(cycle(asked), count))
