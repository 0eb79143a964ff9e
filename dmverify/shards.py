"""Shards of a search: run anywhere, in any order, and merged into the record of the whole.

A shard is (i, n): of the numbered parts of a search it takes i, i + n, i + 2n, ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from dmverify.errors import InputError

Shard: TypeAlias = tuple[int, int]
WHOLE: Shard = (0, 1)


def read_shard(text: str) -> Shard:
    """A shard from "i/n".

    Raises:
        InputError: Unless 0 <= i < n.

    >>> read_shard("1/4")
    (1, 4)
    """
    left, _, right = text.partition("/")
    number, count = (int(x) if x.isdecimal() else -1 for x in (left, right))
    if not 0 <= number < count:
        raise InputError(
            f"shard {text!r}",
            rule="a shard is i/n with 0 <= i < n",
            fix="write for example 0/4, 1/4, 2/4 and 3/4",
        )
    return number, count


def part_of(shard: Shard, part: Shard) -> Shard:
    """A part of a shard, as a shard of the whole."""
    return shard[0] + shard[1] * part[0], shard[1] * part[1]


def require_every_shard(
    records: Sequence[Mapping[str, Any]], plans: Sequence[Mapping[str, Any]]
) -> None:
    """Raises unless records are every shard of one search, each once.

    Args:
        records: Each says its ``shard``.
        plans: What each was asked; the same for all.

    Raises:
        InputError: If a shard is missing or doubled, or plans differ.
    """
    found = sorted(tuple(record["shard"]) for record in records)
    alike = all(plan == plans[0] for plan in plans)
    if not found or not alike or found != [(i, len(found)) for i in range(len(found))]:
        options = ", ".join(f"--{name}" for name in (plans[0] if plans else ()))
        raise InputError(
            f"shards {found}",
            rule="a merged record holds every shard of one plan, each once",
            fix=f"run the missing shards with the same {options}",
        )
