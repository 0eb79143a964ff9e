"""Query heads of a group together: one operation for several, and each by itself afterwards.

A stack holds key heads, and a group's query heads go through the same steps on the same keys. Taken
together they have the keys once more each; what becomes dK and dV is then taken apart again, since
those are sums over the heads in ascending order. No result changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from dmverify.spec.arithmetic.stacked import Stack
from dmverify.spec.attention.num import Num
from dmverify.spec.attention.operands import BlockScaled, Head
from dmverify.spec.attention.run import Keys
from dmverify.spec.attention.state import Cast
from dmverify.spec.namespace import Array

Record = TypeVar("Record", BlockScaled, Head, Cast)


def query_heads(group: int, count: int) -> Iterator[range]:
    """Numbers within a group that are taken together, ``count`` at a time or one."""
    step = max(count, 1)
    return (range(i, min(i + step, group)) for i in range(0, group, step))


def repeated(keys: Keys, times: int) -> Keys:
    """Keys and their mean, of all heads of a stack so many times."""
    if keys is None or times == 1:
        return keys

    def change(x: Num) -> Num:
        return _changed(x, lambda array: np.concatenate([array] * times))

    return _each(keys[0], change), change(keys[1])


def one_by_one(head: Head, cast: Cast, times: int) -> Iterator[tuple[Head, Cast]]:
    """Each query head of those that were taken together, in ascending order."""
    if times == 1:
        yield head, cast
        return
    heads = len(head.q.codes.array.numbers) // times
    for i in range(times):
        cut = partial(_cut, slice(i * heads, (i + 1) * heads))
        yield _each(head, cut), _each(cast, cut)


def _cut(cut: slice, x: Num) -> Num:
    shared = x.array.numbers.shape[0] == 1  # by all heads
    return x if shared else _changed(x, lambda array: array[cut])


def _changed(x: Num, change: Callable[[Array], Array]) -> Num:
    numbers: Any = x.array.numbers
    done = change(numbers) if isinstance(numbers, np.ndarray) else numbers.map(change)
    return Num(Stack(done), x.a)


def _each(record: Record, change: Callable[[Num], Num]) -> Record:
    """The record with every number changed."""
    found: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, Num):
            found[field.name] = change(value)
        elif isinstance(value, BlockScaled):
            found[field.name] = _each(value, change)
    return replace(record, **found)
