"""Kinds of values within a class, each of which smoke has under every level of a few factors.

The array has every class of values under every level, by some variant of the class: a kernel that
swallows infinities at 256 channels and keeps NaN passes where all it is asked there are NaN. So the
values that a kernel may treat apart are named here, as patterns of ``family/variant``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatch
from types import MappingProxyType

from dmverify.conformance.coverage.factors import SERVED_BY_ALL
from dmverify.spec.problem import Problem

KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "NaN": ("special/*-nan",),
        "infinity": ("special/*-inf",),
        "a tensor of zeros": ("zero-blocks/all-*",),
        "equal tokens": ("duplicates/*",),
        "one key many times": ("duplicates/keys-only",),
        "constant V": ("constant-v/*",),
        "an offset": ("offset/*", "positive-v/*"),
    }
)

LEVELS: Mapping[str, tuple[Callable[[Problem], object], tuple[object, ...]]] = MappingProxyType(
    {
        "head dim": (lambda p: p.head_dim, SERVED_BY_ALL),
        "mask": (lambda p: p.causal, (True, False)),
        "batch": (lambda p: min(p.batch, 3), (1, 2, 3)),
        "grouped": (lambda p: p.group > 1, (True, False)),
    }
)
"""By factor: the level of a problem, and those that there have to be."""


def unmet(cases: Iterable[tuple[str, Problem]]) -> Iterator[tuple[str, str, object]]:
    """Kind, factor and level that no case has.

    Args:
        cases: ``family/variant`` and the problem of each.
    """
    cases = list(cases)
    for kind, patterns in KINDS.items():
        mine = [p for name, p in cases if any(fnmatch(name, pattern) for pattern in patterns)]
        for factor, (level_of, levels) in LEVELS.items():
            met = {level_of(problem) for problem in mine}
            yield from ((kind, factor, level) for level in levels if level not in met)
