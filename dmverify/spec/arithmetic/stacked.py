"""Heads of equal shape as one: every array has an axis in front that the steps do not see.

The steps are written for one head. ``Stacked`` runs them for many at once in another
interpretation, whose operations take arrays with axes in front: an operation on (M, N) becomes the
same operation on (heads, M, N), element for element, so no result changes. What is the same for all
heads (masks, constants) has length 1 in front. Operations that look along rows and count axes
from the left are given the rows of all heads one below the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmverify.spec.arithmetic.interface import Arithmetic, Logits
from dmverify.spec.namespace import Array


@dataclass(frozen=True, eq=False)
class Stack:
    """An array of each head: ``numbers`` has the heads in front, all else is one head's view."""

    numbers: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one head's array."""
        return tuple(self.numbers.shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Stack:
        inside = key if isinstance(key, tuple) else (key,)
        return Stack(self.numbers[(slice(None), *inside)])

    def __neg__(self) -> Stack:
        return Stack(-self.numbers)

    def __sub__(self, other: Stack) -> Stack:
        return Stack(self.numbers - other.numbers)

    def reshape(self, *shape: Any) -> Stack:
        """Reshaped."""
        sizes = shape[0] if isinstance(shape[0], tuple) else shape
        return Stack(self.numbers.reshape(self.numbers.shape[0], *sizes))

    def swapaxes(self, first: int, second: int) -> Stack:
        """The stack with two axes of each head exchanged."""
        return Stack(self.numbers.swapaxes(first + 1, second + 1))


class Stacked:
    """Another interpretation for many heads at once.

    Operations that are not named here act element by element.

    Args:
        inner: An enclosure or bits: its operations take axes in front.
        heads: How many heads a stack holds; 1 stands for all of them.
    """

    def __init__(self, inner: Arithmetic, heads: int) -> None:
        self._inner: Any = inner
        self._heads = heads

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._by_element(found) if callable(found) else found

    def array(self, x: Array) -> Stack:
        """One array that all heads share."""
        return Stack(self._inner.array(np.asarray(x)[None]))

    def per_head(self, x: Array) -> Stack:
        """An array of each head, heads in front."""
        return Stack(self._inner.array(x))

    def between(self, low: Array, high: Array) -> Stack:
        """Ends of each head, heads in front."""
        return Stack(self._inner.between(low, high))

    def mask(self, x: Array) -> Any:
        """A mask that all heads share."""
        return self._inner.mask(np.asarray(x)[None])

    def greater(self, a: Stack, b: Stack) -> Any:
        """A mask of each head."""
        return self._inner.greater(*_aligned((a, b)))

    def sum(self, a: Stack, axis: int, *, over: str) -> Stack:
        """Along an axis of one head."""
        return Stack(self._inner.sum(a.numbers, axis + 1, over=over))

    def inner(self, a: Stack, b: Stack, axis: int, *, over: str) -> Stack:
        """Along an axis of one head."""
        return Stack(self._inner.inner(*_aligned((a, b)), axis + 1, over=over))

    def max(self, a: Stack, axis: int) -> Stack:
        """Along an axis of one head."""
        return Stack(self._inner.max(a.numbers, axis + 1))

    def dot(self, a: Stack, b: Stack, *, over: str) -> Stack:
        """The dot of each head."""
        return Stack(self._inner.dot(a.numbers, b.numbers, over=over))

    def concatenate(self, parts: Sequence[Stack], axis: int) -> Stack:
        """Joined along an axis of one head."""
        heads = max(part.numbers.shape[0] for part in parts)
        return Stack(
            self._inner.concatenate([self._repeated(part, heads) for part in parts], axis + 1)
        )

    def broadcast(self, a: Stack, shape: tuple[int, ...]) -> Stack:
        """Repeated along axes of one head."""
        return Stack(self._inner.broadcast(a.numbers, (a.numbers.shape[0], *shape)))

    def ln2(self) -> Stack:
        """ln 2."""
        return Stack(self._inner.ln2().reshape(1, 1, 1))

    def per_ln2(self, x: float) -> Stack:
        """``x log2 e``."""
        return Stack(self._inner.per_ln2(x).reshape(1, 1, 1))

    def any_of(self, known: Any, allowed: Callable[[], Any]) -> Any:
        """Asks the other interpretation."""
        return self._inner.any_of(known, allowed)

    def below_maximum(self, row: Logits) -> Stack:
        """Row by row."""
        below = self._inner.below_maximum
        return self._by_row(lambda *parts: below(Logits(*parts)), (row.x, row.top), row.seen)

    def share(self, e: Stack, total: Stack, row: Logits) -> Stack:
        """Row by row."""
        share = self._inner.share
        return self._by_row(
            lambda e, total, *parts: share(e, total, Logits(*parts)),
            (e, total, row.x, row.top),
            row.seen,
        )

    def at_largest(self, x: Stack, windows: Stack, keys: Stack) -> Stack:
        """Row by row."""
        return self._by_row(self._inner.at_largest, (x, windows, keys))

    def _by_element(self, operation: Callable[..., Any]) -> Callable[..., Stack]:
        return lambda *args, **named: Stack(operation(*_aligned(args), **named))

    def _by_row(
        self, operation: Callable[..., Any], stacks: Sequence[Stack], *masks: Array
    ) -> Stack:
        """The rows of all heads one below the other, and back."""
        rows = max(len(stack) for stack in stacks)
        tall = [self._tall(stack, rows) for stack in stacks]
        masks = tuple(np.broadcast_to(m, (self._heads, *m.shape)) for m in masks)
        found = operation(*tall, *(m.reshape(-1, *m.shape[2:]) for m in masks))
        return Stack(found.reshape(self._heads, rows, *found.shape[1:]))

    def _tall(self, stack: Stack, rows: int) -> Any:
        spread = self._inner.broadcast(stack.numbers, (self._heads, rows, *stack.shape[1:]))
        return spread.reshape(self._heads * rows, *stack.shape[1:])

    def _repeated(self, part: Stack, heads: int) -> Any:
        return self._inner.broadcast(part.numbers, (heads, *part.shape))


def _aligned(args: Sequence[Any]) -> list[Any]:
    """Numbers of the stacks among the arguments, with as many axes each."""
    ranks = [len(x.shape) for x in args if isinstance(x, Stack)]
    return [_ranked(x, max(ranks)) if isinstance(x, Stack) else x for x in args]


def _ranked(x: Stack, rank: int) -> Any:
    missing = rank - len(x.shape)
    return x.numbers[(slice(None), *[None] * missing)] if missing else x.numbers
