"""What a variant asks of its shape, so that its point remains when the design gives it another.

A second block that is zero needs two blocks; keys that fall tile by tile need three tiles; a row of
logits that is exact at one softmax scale keeps that scale. A variant whose point *is* a shape
(``OWN_SHAPE``) keeps it and takes no row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from dmverify.conformance.families.blocks import WHERE
from dmverify.conformance.families.family import Family
from dmverify.conformance.families.tensors import NAMES

ALL, CLASS, NOTHING = "all", "class", "nothing"
NON_FINITE = ("nan", "inf", "minus-inf")
FAR = (80, 88, 95, 100, 104, 150)
OF_SHAPE = ("lengths", "long", "counts")  # Gaussian values
OWN_SHAPE = (
    *OF_SHAPE,
    *("integers", "positive-v", "cast-ties", "exponentials", "deciding"),
    *("rounding/quotient-ties", "rounding/quotient-near-ties"),
)
"""Families and variants."""

# By level of the scale: what the id sets, None for nothing.
ANY_SCALE: Mapping[str, tuple[float | None, ...]] = MappingProxyType(
    {"default": (None,), "own": (0.3, 0.05), "negative": (-0.1, -0.25), "zero": (0.0,)}
)


@dataclass(frozen=True)
class Needs:
    """Restrictions of a variant's shape, and what its values can show.

    Attributes:
        shows: ``ALL`` where a fault of any output shows, under any condition on the shape;
            ``CLASS`` where some outputs are 0, one-hot or vague, so that the case speaks for its
            class of values only; ``NOTHING`` where most outputs are constant.
        key_tiles: Least number of key tiles.
        query_tiles: Least number of query tiles.
        batch: Least batch.
        key_heads: Least number of key heads.
        parts: Least number of pairs of batch and key head, of which one may be all NaN.
        masks: Which masks it takes.
        square: Whether there are as many queries as keys.
        scales: By level of the scale, the values to choose from; a level that is not there is not
            for this variant.
    """

    shows: str = CLASS
    key_tiles: int = 1
    query_tiles: int = 1
    batch: int = 1
    key_heads: int = 1
    parts: int = 1
    masks: tuple[str, ...] = ("causal", "none")
    square: bool = False
    scales: Mapping[str, tuple[float | None, ...]] = field(default_factory=lambda: ANY_SCALE)


def _kept(scale: float, *others: str) -> Mapping[str, tuple[float | None, ...]]:
    """The variant's own scale, its negative and zero where it stands them."""
    every: dict[str, tuple[float | None, ...]] = {
        "own": (scale,),
        "negative": (-scale,),
        "zero": (0.0,),
    }
    return {level: every[level] for level in ("own", *others)}


EIGHTH = 0.125
TELLS = Needs(ALL)
TWO_TILES, THREE_TILES = Needs(key_tiles=2), Needs(key_tiles=3)
TWO_BLOCKS_OF_ROWS = Needs(query_tiles=3)  # a block of Q or dO is two tiles
BY_TILE = Needs(key_tiles=3, scales=_kept(EIGHTH, "negative"))
NOT_ALL_NAN = Needs(parts=2)


def _each(family: str, names: Iterable[str], needs: Needs) -> dict[str, Needs]:
    return {f"{family}/{name}": needs for name in names}


NEEDS: Mapping[str, Needs] = MappingProxyType(
    {
        **_each("gaussian", [f"spread-{s}" for s in (1, 2, 4, 8)], TELLS),
        **_each("offset", [f"{t}-{c}" for t in ("k", "v", "kv") for c in (0, 1, 4)], TELLS),
        "outliers": TELLS,
        "outliers/one-element": Needs(),
        "distinct-scales": Needs(ALL, key_tiles=3),
        "distinct-scales/wide": THREE_TILES,
        "duplicates/pairs": TELLS,
        "duplicates/blocks": Needs(ALL, key_tiles=2),
        "permutation": Needs(ALL, batch=2, key_heads=2),
        "future": Needs(ALL, key_tiles=3, masks=("causal",)),
        "future/larger": Needs(key_tiles=3, masks=("causal",)),
        "layout": TELLS,
        "layout/packed": Needs(ALL, square=True),
        "layout/expanded": Needs(),
        "special/around": TELLS,
        **_each("special", [f"{t}-{w}" for t in "kv" for w in NON_FINITE], NOT_ALL_NAN),
        "rows": Needs(scales=_kept(EIGHTH, "negative")),
        **_each("rows", ("rising", "falling", "rising-slowly", "zigzag"), BY_TILE),
        "logit-size/negative-scale": Needs(scales={"negative": (-EIGHTH,)}),
        "logit-size/negative-scale-large": Needs(scales={"negative": (-EIGHTH,)}),
        "logit-size/zero-scale": Needs(scales={"zero": (0.0,)}),
        "logit-size/tiny-scale": Needs(scales={"own": (2.0**-100,)}),
        "rounding": Needs(scales=_kept(2.0**-12, "negative", "zero")),
        "rounding/subnormals": Needs(scales={**_kept(1.0, "negative"), "default": (None,)}),
        "rounding/signed-zeros": Needs(scales={**_kept(1.0, "negative"), "default": (None,)}),
        **_each("zero-blocks", [f"{t}-{w}" for t in "kv" for w in WHERE], TWO_TILES),
        **_each(
            "zero-blocks", [f"{t}-{w}" for t in ("q", "do") for w in WHERE], TWO_BLOCKS_OF_ROWS
        ),
        **_each("zero-blocks", [f"all-{t}" for t in NAMES], Needs(NOTHING)),
        **_each("zero-blocks", [f"single-{t}" for t in NAMES], Needs(NOTHING)),
        "zero-blocks/everything": Needs(NOTHING),
        **_each(
            "tiny-amax",
            [f"far-keys-{gap}" for gap in FAR],
            Needs(key_tiles=2, scales=_kept(EIGHTH)),
        ),
        "cancelling-delta": Needs(masks=("none",)),
        "cancelling-delta/causal": Needs(masks=("causal",)),
    }
)
"""By family or ``family/variant``; the second goes before the first."""


def needs_of(family: Family, variant: str) -> Needs | None:
    """What a variant asks of a row; None for one that takes none."""
    own_shape = {family.name, f"{family.name}/{variant}"} & set(OWN_SHAPE)
    if own_shape or "on-demand" in family.flags_of(variant):
        return None
    return _listed(family.name, variant)


def shows(family: str, variant: str) -> str:
    """What the values of a variant can show: ``ALL``, ``CLASS`` or ``NOTHING``."""
    return ALL if family in OF_SHAPE else _listed(family, variant).shows


def _listed(family: str, variant: str) -> Needs:
    own = NEEDS.get(f"{family}/{variant}")
    return own if own is not None else NEEDS.get(family, Needs())
