"""Conforming kernels that use every freedom a contract leaves: random orders, fused or not.

| kernel | contract | order |
|---|---|---|
| ``Single`` | article, upstream | the library's |
| ``Fused`` | bundled if no order is known | the library's, without a tensor core |
| ``Shuffled`` | the same | one chain for each sum and dot in a random order, fused or not |
| ``Bits`` | bundled | the contract's |
| ``ShuffledBits`` | bundled | the tensor core's products permuted: tokens, channels if free |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MappingProxyType

import numpy as np

from dmverify.spec.arithmetic import Bits, Single
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.contracts import Contract
from dmverify.spec.machine.hopper import arith
from dmverify.spec.namespace import Array


class Fused(Single):
    """float32 with a single-rounding fma, which a contract that names fma asks for."""

    name = "fused"

    def fma(self, a: Array, b: Array, c: Array) -> Array:
        """``a * b + c``, rounded once."""
        return arith.fma(a, b, c)


class Shuffled(Single):
    """float32; every sum is one chain in a random order."""

    name = "shuffled"

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed

    def sum(self, a: Array, axis: int, *, over: str) -> Array:
        """One chain."""
        total = np.zeros_like(a.take([0], axis))
        for i in self._order(a.shape[axis]):
            total = total + a.take([i], axis)
        return total

    def inner(self, a: Array, b: Array, axis: int, *, over: str) -> Array:
        """One chain, fused with probability 1/2."""
        x, y = np.broadcast_arrays(a, b)
        return self._chain(lambda i: (x.take([i], axis), y.take([i], axis)), x.shape[axis])

    def dot(self, a: Array, b: Array, *, over: str) -> Array:
        """One chain, fused with probability 1/2."""
        return self._chain(lambda i: (a[:, i, None], b[None, :, i]), a.shape[-1])

    def _order(self, length: int) -> Iterable[int]:
        """The same for the same length: a step that is looked at twice must not change."""
        return [int(i) for i in np.random.default_rng((self._seed, length)).permutation(length)]

    def _fused(self, length: int) -> bool:
        return bool((self._seed + length) % 2)

    def _chain(self, term: Callable[[int], tuple[Array, Array]], length: int) -> Array:
        fused = self._fused(length)
        total: Array = np.float32(0)
        for i in self._order(length):
            x, y = term(i)
            total = arith.fma(x, y, total + np.zeros_like(x * y)) if fused else total + x * y
        return total


class InOrder(Shuffled):
    """float32; every sum is one chain in ascending order, products rounded."""

    name = "in-order"

    def __init__(self) -> None:
        super().__init__(0)

    def _order(self, length: int) -> Iterable[int]:
        return range(length)

    def _fused(self, length: int) -> bool:
        return False


class ShuffledBits(Bits):
    """Hopper bits with the products of each chain in a random order."""

    name = "shuffled-bits"

    def __init__(self, seed: int, *, channels: bool) -> None:
        super().__init__()
        self._seed = seed
        self._over = ("channels", "tokens") if channels else ("tokens",)

    def dot(self, a: Array, b: Array, *, over: str) -> Array:
        """A chain of k32 instructions over permuted products."""
        if over in self._over:
            length = a.shape[-1]
            order = np.random.default_rng((self._seed, length)).permutation(length)
            a, b = (np.ascontiguousarray(x[:, order]) for x in (a, b))
        return super().dot(a, b, over=over)


Make = Callable[[int], Arithmetic]

_FLOATS: tuple[Make, ...] = (lambda seed: Single(), Shuffled)
_CHANNELS: tuple[Make, ...] = (
    lambda seed: Bits(),
    lambda seed: ShuffledBits(seed, channels=False),
)
_FREE: tuple[Make, ...] = (
    lambda seed: Fused(),
    lambda seed: Bits(),
    lambda seed: ShuffledBits(seed, channels=True),
)
_KERNELS: MappingProxyType[tuple[str, str], tuple[Make, ...]] = MappingProxyType(
    {
        ("rows", "channels"): _FLOATS,
        ("rows", "free"): _FLOATS,
        ("windows", "channels"): _CHANNELS,
        ("windows", "free"): _FREE,
    }
)


def conforming(contract: Contract, order: str) -> tuple[Make, ...]:
    """Makers of arithmetics that conform where ``order`` is what is known."""
    return _KERNELS[contract.schedule.kind, order]
