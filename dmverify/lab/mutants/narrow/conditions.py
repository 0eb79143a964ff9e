"""Words about a problem that the conditions of narrow faults share."""

from __future__ import annotations

from dmverify.lab.mutants.narrow.harms import TILE
from dmverify.spec.problem import Problem


def own(p: Problem) -> bool:
    """A softmax scale of the caller's, above 0."""
    return p.softmax_scale is not None and p.softmax_scale > 0


def negative(p: Problem) -> bool:
    """A softmax scale below 0."""
    return p.scale < 0


def zero(p: Problem) -> bool:
    """A softmax scale of 0."""
    return p.scale == 0


def tiles(p: Problem) -> int:
    """Key tiles."""
    return -(-p.keys // TILE)


def left(p: Problem) -> int:
    """Keys in the last tile, 0 if it is whole."""
    return p.keys % TILE


def fewer(p: Problem) -> bool:
    """At most half as many queries as keys."""
    return 0 < 2 * p.queries <= p.keys


def more(p: Problem) -> bool:
    """At least twice as many queries as keys."""
    return p.queries >= 2 * p.keys > 0
