"""The factors of a case that narrow mutants name, and what it is to have a level of one.

They are read from the problem and from the numbers themselves, as a kernel would meet them, and not
from the names and tables by which the suite chooses its cases.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from dmverify.lab.mutants.narrow.harms import TILE
from dmverify.lab.mutants.narrow.values import VALUES
from dmverify.spec.case import Case
from dmverify.spec.contracts import get_contract
from dmverify.spec.problem import Problem

Levels = Mapping[str, Any]
"""By factor: a value, a comparison such as ``>132``, or several that all hold."""


def tiles(p: Problem) -> int:
    """Key tiles."""
    return -(-p.keys // TILE)


def _scale(p: Problem) -> str:
    if p.scale <= 0:
        return "negative" if p.scale < 0 else "zero"
    return "usual" if p.softmax_scale is None else "own"


def _lengths(p: Problem) -> str:
    """Whether there are at most half, or at least twice, as many queries as keys."""
    if 0 < 2 * p.queries <= p.keys:
        return "fewer"
    return "more" if p.queries >= 2 * p.keys > 0 else "alike"


SHAPE: Mapping[str, Callable[[Problem], Any]] = MappingProxyType(
    {
        **{
            name: operator.attrgetter(name)
            for name in ("batch", "heads", "kv_heads", "group", "queries", "keys", "head_dim")
        },
        "causal": lambda p: p.causal,
        "scale": _scale,
        "lengths": _lengths,
        "excess": lambda p: p.queries - p.keys,
        "tiles": tiles,
        "left": lambda p: p.keys % TILE,
        "query_left": lambda p: p.queries % TILE,
        "dead_rows": lambda p: p.causal and p.queries > p.keys > 0,
        "odd_heads": lambda p: p.heads % 2 == 1,
        "all_heads": lambda p: p.batch * p.heads,
        "head_tiles": lambda p: p.batch * p.kv_heads * tiles(p),
    }
)
"""Factors of the problem: cheap, so that no inputs are made in vain. ``left`` and ``query_left``:
keys and rows of the last tile, 0 if it is whole."""

CONTENT: Mapping[str, Callable[[Case, Any], bool]] = MappingProxyType(
    {
        "values": lambda case, level: VALUES[level](case),
        "delta": lambda case, level: get_contract(case.contract).delta == level,
        "ds_cast": lambda case, level: get_contract(case.contract).ds_cast == level,
    }
)
"""Factors of the inputs and of the contract's words, by whether a case has a level."""

COMPARISONS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


def has_level(value: Any, level: Any) -> bool:
    """Whether a factor's value is, or lies in, a level."""
    if isinstance(level, list):
        return all(has_level(value, one) for one in level)
    if isinstance(level, str):
        for sign, holds in COMPARISONS.items():
            if level.startswith(sign):
                return bool(holds(value, int(level.removeprefix(sign))))
    return bool(value == level)
