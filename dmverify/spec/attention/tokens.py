"""dK and dV of key heads, from their query heads and blocks of queries in ascending order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from dmverify.spec.arithmetic.enclosure_dot import Sums, no_sums, sums_of
from dmverify.spec.attention.num import Num, broadcast, concatenate
from dmverify.spec.attention.operands import Head, Prepared
from dmverify.spec.attention.shared_steps import Part, token_gradient, token_operands
from dmverify.spec.attention.state import Cast
from dmverify.spec.attention.stores import store_of
from dmverify.spec.attention.unspecified_order import rounds_heads, widen_heads, widen_scaled
from dmverify.spec.attention.window_products import from_keys, token_chain
from dmverify.spec.contracts import Contract, Online, Rows, Windows
from dmverify.spec.formats import FP32


class Tokens(Protocol):
    """What becomes dK and dV."""

    def next_head(self) -> None:
        """Another query head begins."""

    def take(self, head: Head, cast: Cast) -> None:
        """The block's part; it may see the first keys only."""

    def totals(self) -> Iterator[Num]:
        """dK, then dV, (N, D): made one after the other, as both at once would be large."""


@dataclass(frozen=True)
class InParts:
    """How a call is cut.

    Attributes:
        heads: How many key heads a stack holds.
        added: Whether numbers are sets and queries come block by block, so that sums which enclose
            the parts are added.
    """

    heads: int
    added: bool


def tokens_of(
    a: Any, contract: Contract, prepared: Prepared, *, parts: InParts | None = None
) -> Tokens:
    """The way of the contract.

    Args:
        a: The interpretation.
        contract: Gives the schedule.
        prepared: Gives the sizes.
        parts: How the call is cut; None is one head at a time, with all its queries and padding.
    """
    schedule = contract.schedule
    keys, channels = prepared.tensors["k"][0].shape[-2:]
    one = Num(a.array(np.ones((1, 1), np.float32)), a)
    factors = one.of(abs(prepared.problem.scale)), one
    if isinstance(schedule, Windows):
        real = keys if parts is None else max(prepared.problem.keys, 1)
        zero = broadcast(one.of(0.0), (real, channels))
        return Carried(schedule, factors[0], [zero, zero])
    scaled = prepared.problem.group if store_of(contract, "dk").fmt is FP32 else 0
    if parts is not None and parts.added and not schedule.on_codes:
        return Added(schedule, factors, (parts.heads, keys, channels), scaled)
    return Gathered(schedule, factors, scaled)


@dataclass
class Carried:
    """With windows: one chain over the tiles of queries; padding is no key of theirs."""

    schedule: Windows
    scale: Num
    found: list[Num]

    def next_head(self) -> None:
        """The chain goes on."""

    def take(self, head: Head, cast: Cast) -> None:
        """Adds a block of queries to the chains of dK and dV, for the keys that it may see."""
        keys = min(head.seen.shape[1], len(self.found[0]))
        for i, (coded, rows) in enumerate(((cast.ds, head.q), (cast.p, head.do))):
            first, rest = self.found[i][:keys], self.found[i][keys:]
            weights = from_keys(self.schedule, coded, head.seen, keys)
            first = token_chain(weights, rows, first)
            self.found[i] = concatenate([first, rest], 0) if len(rest) else first

    def totals(self) -> Iterator[Num]:
        """dK times the softmax scale, and dV."""
        return iter((self.found[0] * self.scale, self.found[1]))


@dataclass
class Gathered:
    """Without windows: one sum over the queries of all heads, formed at the end."""

    schedule: Rows | Online
    factors: tuple[Num, Num]
    scaled: int = 0  # query heads whose part may be scaled first, where its underflow shows
    heads: list[tuple[list[Part], list[Part]]] = field(default_factory=list)

    def next_head(self) -> None:
        """What comes is another head's."""
        self.heads.append(([], []))

    def take(self, head: Head, cast: Cast) -> None:
        """Kept until the end."""
        gradients, weights = self.heads[-1]
        gradients.append((cast.ds, head.q))
        weights.append((cast.p, head.do))

    def totals(self) -> Iterator[Num]:
        """dK and dV."""
        return (self._total(i) for i in range(2))

    def _total(self, i: int) -> Num:
        heads = [head[i] for head in self.heads]
        whole = token_gradient([part for parts in heads for part in parts], self.factors[i])
        if i == 0:
            whole = widen_scaled(whole, self.scaled)
        if len(heads) == 1 or not rounds_heads(self.schedule):
            return whole
        return widen_heads(whole, (token_gradient(parts, self.factors[i]) for parts in heads))


class Added:
    """Without windows, block by block: the sums that enclose the dot."""

    def __init__(
        self,
        schedule: Rows | Online,
        factors: tuple[Num, Num],
        shape: tuple[int, int, int],
        scaled: int,
    ) -> None:
        self._schedule, self._factors, self._shape = schedule, factors, shape
        self._heads_scaled = scaled
        self._all: tuple[Sums, Sums] = self._none()
        self._single: list[tuple[Sums, Sums]] = []

    def next_head(self) -> None:
        """What comes is another head's."""
        if rounds_heads(self._schedule):
            self._single.append(self._none())

    def take(self, head: Head, cast: Cast) -> None:
        """Added to what there is."""
        for i, part in enumerate(((cast.ds, head.q), (cast.p, head.do))):
            left, right = token_operands([part])
            sums = sums_of(left.array.numbers, right.array.numbers)
            for whole in (self._all, *self._single[-1:]):
                whole[i].add(sums)

    def totals(self) -> Iterator[Num]:
        """dK and dV."""
        return (self._total(i) for i in range(2))

    def _total(self, i: int) -> Num:
        whole = self._scaled(self._all[i], i)
        if i == 0:
            whole = widen_scaled(whole, self._heads_scaled)
        if len(self._single) < 2:
            return whole
        return widen_heads(whole, (self._scaled(each[i], i) for each in self._single))

    def _scaled(self, sums: Sums, i: int) -> Num:
        factor = self._factors[i]
        return Num(factor.a.enclosed(sums), factor.a) * factor  # type: ignore[attr-defined]

    def _none(self) -> tuple[Sums, Sums]:
        heads, keys, channels = self._shape
        return no_sums((heads, keys), channels), no_sums((heads, keys), channels)
