"""Hopper bits: each rounding operation is the instruction that the kernel names.

| operation | instruction | | operation | instruction |
|---|---|---|---|---|
| add, sub | add.rn.f32 | | exp2 | ex2.approx.ftz.f32 |
| mul | mul.rn.f32 | | log2 | lg2.approx.ftz.f32 |
| fma | fma.rn.f32 | | max, maximum | max.f32 |
| div | div.rn.f32 (rcp.rn.f32 of 1) | | dot | wgmma k32 chain, E4M3, C = 0 first |
| sqrt | sqrt.rn.f32 | | cast | cvt.rn.satfinite.e4m3x2, cvt.rn.bf16x2 |

Natural exp and log do not exist on the machine and neither does a sum without an order: a contract
that needs them has no bits. Arrays are numpy, or what ``place`` makes of them: a caller with torch
passes ``lambda x: torch.from_numpy(x).cuda()`` and the same steps run on the GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np

from dmverify.errors import ContractError
from dmverify.spec.arithmetic.floating import ALL_CASTS, Floating
from dmverify.spec.constants import constant
from dmverify.spec.hopper import arith, ex2, lg2, wgmma_values
from dmverify.spec.namespace import Array, astype, bitcast, namespace_of

K32 = int(constant("K32"))  # what one instruction contracts


class Bits(Floating):
    """The outputs that the hardware must give.

    Args:
        place: Moves a numpy array to where the work is done; the default leaves it.
    """

    name = "bits"
    dtype = "float32"
    exact_schedule: ClassVar[bool] = True

    def __init__(self, place: Callable[[Any], Array] = np.ascontiguousarray) -> None:
        self.casts = ALL_CASTS
        self._place = place

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
        """``add.rn.f32``."""
        return arith.add(a, b)

    def sub(self, a: Array, b: Array) -> Array:
        """``add.rn.f32`` of the negated operand."""
        return arith.add(a, -b)

    def mul(self, a: Array, b: Array) -> Array:
        """``mul.rn.f32``."""
        return arith.mul(a, b)

    def div(self, a: Array, b: Array) -> Array:
        """``div.rn.f32``."""
        return arith.div(a, b)

    def fma(self, a: Array, b: Array, c: Array) -> Array:
        """``fma.rn.f32``."""
        return arith.fma(a, b, c)

    def sqrt(self, a: Array) -> Array:
        """``sqrt.rn.f32``."""
        return arith.sqrt(a)

    def exp2(self, a: Array) -> Array:
        """``ex2.approx.ftz.f32``."""
        return ex2(a)

    def log2(self, a: Array) -> Array:
        """``lg2.approx.ftz.f32``."""
        return lg2(a)

    def exp(self, a: Array) -> NoReturn:
        """No such instruction."""
        _refuse("exp")

    def log(self, a: Array) -> NoReturn:
        """No such instruction."""
        _refuse("log")

    def sum(self, a: Array, axis: int) -> NoReturn:
        """No order, no bits."""
        _refuse("sum without an order")

    def inner(self, a: Array, b: Array, axis: int) -> NoReturn:
        """No order, no bits."""
        _refuse("inner product without an order")

    def max(self, a: Array, axis: int) -> Array:
        """``max.f32`` over an axis: a NaN loses against a number."""
        xp = namespace_of(a)
        nan = xp.isnan(a)
        top = xp.amax(xp.where(nan, -xp.inf, a), axis, keepdims=True)
        return xp.where(xp.all(nan, axis, keepdims=True), xp.nan, top)

    def maximum(self, a: Array, b: Array) -> Array:
        """``max.f32``."""
        return arith.maximum(a, b)

    def dot(self, a: Array, b: Array, *, over: str) -> Array:
        """A chain of k32 wgmma instructions in ascending K, the first with scale-d = 0."""
        xp = namespace_of(a)
        a, b = (_whole_instructions(xp, x) for x in (a, b))
        zero = xp.zeros((a.shape[-2], b.shape[-2]), dtype=xp.float32, device=a.device)
        return wgmma_values(a, b, zero)

    def pow2(self, n: Array) -> Array:
        """Built from exponent bits: +0 below 2^-126."""
        xp = namespace_of(n)
        return bitcast((astype(xp.clip(n, -127, 127), "int32") + 127) << 23, "float32")


def _whole_instructions(xp: Any, x: Array) -> Array:
    """(..., K) with zeros up to whole instructions, which add nothing."""
    missing = -x.shape[-1] % K32
    if not missing:
        return x
    zeros = xp.zeros((*x.shape[:-1], missing), dtype=x.dtype, device=x.device)
    return xp.concatenate((x, zeros), -1)


def _refuse(what: str) -> NoReturn:
    raise ContractError(
        what,
        rule="bits exist only for named instructions in a stated order",
        fix="use a contract with bit_exact, or another interpretation",
    )
