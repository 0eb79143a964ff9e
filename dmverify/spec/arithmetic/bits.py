"""Bits: each rounding operation is an instruction of a machine, by default of Hopper.

The steps name the operations; the machine (``dmverify.spec.machine``) says which instruction each
one is and what it returns. Natural exp and log are no instructions and neither is a sum without an
order: a contract that needs them has no bits. Arrays are numpy, or what ``place`` makes of them: a
caller with torch passes ``lambda x: torch.from_numpy(x).cuda()`` and the same steps run on the GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np

from dmverify.errors import ContractError
from dmverify.spec.arithmetic.floating import ALL_CASTS, Floating
from dmverify.spec.formats import Element
from dmverify.spec.machine import HOPPER, Machine
from dmverify.spec.namespace import Array, astype, bitcast, namespace_of


class Bits(Floating):
    """The outputs that the hardware must give.

    Args:
        place: Moves a numpy array to where the work is done; the default leaves it.
        machine: Whose instructions they are.
    """

    name = "bits"
    dtype = "float32"
    exact_schedule: ClassVar[bool] = True

    def __init__(
        self,
        place: Callable[[Any], Array] = np.ascontiguousarray,
        *,
        machine: Machine = HOPPER,
    ) -> None:
        self.casts = ALL_CASTS
        self._place, self._machine = place, machine

    def array(self, x: Array) -> Array:
        """The float32 array, placed."""
        return self._place(np.ascontiguousarray(x, np.float32))

    def mask(self, x: Array) -> Array:
        """The mask, placed."""
        return self._place(np.ascontiguousarray(x))

    def float64(self, x: Array) -> Array:
        """Back as a float64 numpy array; exact."""
        here = x.cpu().numpy() if namespace_of(x) is not np else x
        return np.asarray(here, np.float64)

    def add(self, a: Array, b: Array) -> Array:
        """The machine's sum."""
        return self._machine.add(a, b)

    def sub(self, a: Array, b: Array) -> Array:
        """The sum with the negated operand."""
        return self._machine.add(a, -b)

    def mul(self, a: Array, b: Array) -> Array:
        """The machine's product."""
        return self._machine.mul(a, b)

    def div(self, a: Array, b: Array) -> Array:
        """The machine's quotient."""
        return self._machine.div(a, b)

    def fma(self, a: Array, b: Array, c: Array) -> Array:
        """The machine's fused product and sum."""
        return self._machine.fma(a, b, c)

    def sqrt(self, a: Array) -> Array:
        """The machine's root."""
        return self._machine.sqrt(a)

    def exp2(self, a: Array) -> Array:
        """The machine's fast 2^a."""
        return self._machine.ex2(a)

    def log2(self, a: Array) -> Array:
        """The machine's fast logarithm."""
        return self._machine.lg2(a)

    def exp(self, a: Array) -> NoReturn:
        """No such instruction."""
        _refuse("exp")

    def log(self, a: Array) -> NoReturn:
        """No such instruction."""
        _refuse("log")

    def sum(self, a: Array, axis: int, *, over: str) -> NoReturn:
        """No order, no bits."""
        _refuse("sum without an order")

    def inner(self, a: Array, b: Array, axis: int, *, over: str) -> NoReturn:
        """No order, no bits."""
        _refuse("inner product without an order")

    def max(self, a: Array, axis: int) -> Array:
        """``max.f32`` over an axis: a NaN loses against a number."""
        xp = namespace_of(a)
        nan = xp.isnan(a)
        top = xp.amax(xp.where(nan, -xp.inf, a), axis, keepdims=True)
        return xp.where(xp.all(nan, axis, keepdims=True), xp.nan, top)

    def maximum(self, a: Array, b: Array) -> Array:
        """The machine's maximum."""
        return self._machine.maximum(a, b)

    def dot(self, a: Array, b: Array, *, over: str) -> Array:
        """A chain on the machine's tensor core, in ascending order."""
        return self._machine.dot(a, b)

    def cast(self, a: Array, fmt: Element, *, site: str, saturate: bool) -> Array:
        """The machine's conversion."""
        return self._machine.cast(a, fmt, saturate=saturate)

    def pow2(self, n: Array) -> Array:
        """Built from exponent bits: +0 below 2^-126."""
        xp = namespace_of(n)
        return bitcast((astype(xp.clip(n, -127, 127), "int32") + 127) << 23, "float32")


def _refuse(what: str) -> NoReturn:
    raise ContractError(
        what,
        rule="bits exist only for named instructions in a stated order",
        fix="use a contract with bit_exact, or another interpretation",
    )
