"""Hopper as a machine: which of its instructions each operation of a contract is.

| operation | instruction | | operation | instruction |
|---|---|---|---|---|
| add | add.rn.f32 | | ex2 | ex2.approx.ftz.f32 |
| mul | mul.rn.f32 | | lg2 | lg2.approx.ftz.f32 |
| fma | fma.rn.f32 | | rcp | rcp.approx.ftz.f32 |
| div | div.rn.f32 (rcp.rn.f32 of 1) | | maximum | max.f32 |
| sqrt | sqrt.rn.f32 | | dot | wgmma k32 chain, E4M3, C = 0 first |
| cast | cvt.rn.satfinite.e4m3x2, cvt.rn.bf16x2 | | | |
"""

from __future__ import annotations

from typing import Any

from dmverify.spec.constants import constant
from dmverify.spec.formats import Element
from dmverify.spec.machine.hopper import arith
from dmverify.spec.machine.hopper.mufu import ex2, lg2, rcp
from dmverify.spec.machine.hopper.wgmma_call import wgmma_values
from dmverify.spec.machine.hopper.wgmma_fast import FRACTION_BITS
from dmverify.spec.machine.protocol import Accumulator
from dmverify.spec.namespace import Array, namespace_of

K32 = int(constant("K32"))  # what one instruction contracts


class Hopper:
    """See ``dmverify.spec.machine.protocol.Machine``."""

    name = "hopper"
    accumulator = Accumulator(products=K32, fraction_bits=FRACTION_BITS)

    def add(self, x: Array, y: Array) -> Array:
        """``add.rn.f32``."""
        return arith.add(x, y)

    def mul(self, x: Array, y: Array) -> Array:
        """``mul.rn.f32``."""
        return arith.mul(x, y)

    def fma(self, x: Array, y: Array, z: Array) -> Array:
        """``fma.rn.f32``."""
        return arith.fma(x, y, z)

    def div(self, x: Array, y: Array) -> Array:
        """``div.rn.f32``."""
        return arith.div(x, y)

    def sqrt(self, x: Array) -> Array:
        """``sqrt.rn.f32``."""
        return arith.sqrt(x)

    def maximum(self, x: Array, y: Array) -> Array:
        """``max.f32``: a NaN loses against a number."""
        return arith.maximum(x, y)

    def ex2(self, x: Array) -> Array:
        """``ex2.approx.ftz.f32``."""
        return ex2(x)

    def lg2(self, x: Array) -> Array:
        """``lg2.approx.ftz.f32``."""
        return lg2(x)

    def rcp(self, x: Array) -> Array:
        """``rcp.approx.ftz.f32``."""
        return rcp(x)

    def cast(self, x: Array, fmt: Element, *, saturate: bool) -> Array:
        """``cvt.rn``; the instruction to FP8 saturates, a kernel sets NaN itself."""
        return fmt.round(x, saturate=saturate)

    def dot(self, a: Array, b: Array) -> Array:
        """A chain of k32 wgmma instructions in ascending K, the first with scale-d = 0."""
        xp = namespace_of(a)
        a, b = (_whole_instructions(xp, x) for x in (a, b))
        zero = xp.zeros((a.shape[-2], b.shape[-2]), dtype=xp.float32, device=a.device)
        return wgmma_values(a, b, zero)


HOPPER = Hopper()


def _whole_instructions(xp: Any, x: Array) -> Array:
    """(..., K) with zeros up to whole instructions, which add nothing."""
    missing = -x.shape[-1] % K32
    if not missing:
        return x
    zeros = xp.zeros((*x.shape[:-1], missing), dtype=x.dtype, device=x.device)
    return xp.concatenate((x, zeros), -1)
