"""dK and dV of key heads, from their query heads and blocks of queries in ascending order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from dmverify.spec.arithmetic.enclosure_dot import Sums, no_sums, sums_of
from dmverify.spec.arithmetic.stacked import Stack
from dmverify.spec.attention.backward import (
    chained,
    from_keys,
    group_gradient,
    joined_operands,
)
from dmverify.spec.attention.casts import Cast
from dmverify.spec.attention.freedom import head_sum, rounds_heads
from dmverify.spec.attention.operands import Head, Operand, Prepared
from dmverify.spec.attention.products import Coded, constant
from dmverify.spec.contracts import Contract, Windows
from dmverify.spec.namespace import Array


class Tokens(Protocol):
    """What becomes dK and dV."""

    def next_head(self) -> None:
        """Another query head begins."""

    def take(self, head: Head, cast: Cast) -> None:
        """The block's part; it may see the first keys only."""

    def totals(self) -> tuple[Array, Array]:
        """dK and dV, (N, D)."""


def _summable(contract: Contract) -> bool:
    """Whether a dot over tokens is enclosed by sums."""
    return contract.schedule.operands in ("dequantised", "bf16")


def tokens_of(
    a: Any, contract: Contract, prepared: Prepared, heads: int, *, blocked: bool
) -> Tokens:
    """The way of the contract."""
    keys, channels = prepared.tensors["k"][0].shape[-2:]
    factor = constant(a, abs(prepared.problem.scale))[0]
    if isinstance(contract.schedule, Windows):
        real = max(prepared.problem.keys, 1)
        zero = a.broadcast(constant(a, 0.0)[0], (real, channels))
        return Carried(a, contract, factor, [zero, zero])
    if blocked and _summable(contract):
        return Added(a, contract, factor, (heads, keys, channels))
    return Gathered(a, contract, factor)


@dataclass
class Carried:
    """With windows: one chain over the tiles of queries; padding is no key of theirs."""

    a: Any
    contract: Contract
    factor: Array
    found: list[Array]

    def next_head(self) -> None:
        """The chain goes on."""

    def take(self, head: Head, cast: Cast) -> None:
        """Some links of the chain, for the keys that the block may see."""
        keys = min(head.seen.shape[1], len(self.found[0]))
        pairs = ((cast.ds, head.q), (cast.p, head.do))
        for i, (coded, rows) in enumerate(pairs):
            total, rest = self.found[i][:keys], self.found[i][keys:]
            weights = from_keys(self.a, self.contract, coded, head.seen).first(keys)
            total = chained(self.a, self.contract, weights, rows, total)
            self.found[i] = self.a.concatenate([total, rest], 0) if len(rest) else total

    def totals(self) -> tuple[Array, Array]:
        """dK times the softmax scale, and dV."""
        return self.a.mul(self.found[0], self.factor), self.found[1]


@dataclass
class Gathered:
    """Without windows: one sum over the queries of all heads, formed at the end."""

    a: Any
    contract: Contract
    factor: Array
    gradients: list[list[tuple[Coded, Operand]]] = field(default_factory=list)
    weights: list[list[tuple[Coded, Operand]]] = field(default_factory=list)

    def next_head(self) -> None:
        """What comes is another head's."""
        self.gradients.append([])
        self.weights.append([])

    def take(self, head: Head, cast: Cast) -> None:
        """Kept until the end."""
        self.gradients[-1].append((cast.ds, head.q))
        self.weights[-1].append((cast.p, head.do))

    def totals(self) -> tuple[Array, Array]:
        """dK and dV."""
        one = constant(self.a, 1.0)[0]
        return (
            group_gradient(self.a, self.contract, self.gradients, self.factor),
            group_gradient(self.a, self.contract, self.weights, one),
        )


class Added:
    """Without windows, block by block: the sums that enclose the dot."""

    def __init__(
        self, a: Any, contract: Contract, factor: Array, shape: tuple[int, int, int]
    ) -> None:
        self._a, self._contract, self._shape = a, contract, shape
        self._factors = (factor, constant(a, 1.0)[0])
        self._all: tuple[Sums, Sums] = self._none()
        self._single: list[tuple[Sums, Sums]] = []

    def next_head(self) -> None:
        """What comes is another head's."""
        if rounds_heads(self._a, self._contract):
            self._single.append(self._none())

    def take(self, head: Head, cast: Cast) -> None:
        """Added to what there is."""
        pairs = ((cast.ds, head.q), (cast.p, head.do))
        for i, pair in enumerate(pairs):
            left, right = joined_operands(self._a, self._contract, [pair])
            sums = sums_of(left.numbers, right.numbers)
            for total in (self._all, *self._single[-1:]):
                total[i].add(sums)

    def totals(self) -> tuple[Array, Array]:
        """dK and dV."""
        dk, dv = (self._total(i) for i in range(2))
        return dk, dv

    def _total(self, i: int) -> Array:
        total = self._scaled(self._all[i], i)
        if len(self._single) < 2:
            return total
        return head_sum(self._a, total, [self._scaled(each[i], i) for each in self._single])

    def _scaled(self, sums: Sums, i: int) -> Stack:
        scaled: Stack = self._a.mul(self._a.enclosed(sums), self._factors[i])
        return scaled

    def _none(self) -> tuple[Sums, Sums]:
        heads, keys, channels = self._shape
        return no_sums((heads, keys), channels), no_sums((heads, keys), channels)
