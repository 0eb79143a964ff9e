"""Many cheap cases of all families: a shape that is small, and one seed after the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

from dmverify.conformance.families import FAMILIES, generate
from dmverify.conformance.selection import OF_SOME
from dmverify.errors import DmverifyError

# The first is for runs of thousands; the second takes 0.2 s, less than a case of a level does.
TINY = "batch=1,heads=1,kv_heads=1,queries=3,keys=4,head_dim=32,causal=0"
ORDINARY = "batch=2,heads=2,kv_heads=2,queries=128,keys=128,head_dim=64,causal=1"


def cheap_cases(number: int, shape: str) -> tuple[str, ...]:
    """``number`` ids of cheap cases, each once.

    Args:
        number: How many.
        shape: Sizes, as ids name them; families that refuse it are left out.
    """
    return tuple(islice(_ids(shape), number))


def _ids(shape: str) -> Iterator[str]:
    stems = [
        f"{name}/{variant}"
        for name, family in FAMILIES.items()
        for variant in family.variants
        if not {"on-demand", *OF_SOME}.intersection(family.flags_of(variant))
    ]
    taken = [stem for stem in stems if _takes(stem, shape)]
    for seed in count():
        yield from (f"{stem},{shape}@{seed}" for stem in taken)


def _takes(stem: str, shape: str) -> bool:
    try:
        generate(f"{stem},{shape}@0")
    except DmverifyError:
        return False
    return True
