"""Operands for the float32 arithmetic probes: rounding ties, subnormal results, special values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dmverify.lab.probes.operands import U32, Stream, float_bits

OPERATIONS = (
    "add_rn", "add_rn_ftz", "mul_rn", "mul_rn_ftz", "fma_rn", "fma_rn_ftz", "div_rn", "div_rn_ftz",
    "rcp_rn", "rcp_rn_ftz", "sqrt_rn", "sqrt_rn_ftz", "max", "max_ftz",
)  # fmt: skip

_SPECIALS = np.array(
    [0, 1, 2, 0x400000, 0x7FFFFF, 0x800000, 0x800001, 0x33800000, 0x3F7FFFFF, 0x3F800000,
     0x3F800001, 0x40000000, 0x7EFFFFFF, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7F800001],
    np.uint32,
)  # fmt: skip


def _special_triples(stream: Stream, count: int) -> list[U32]:
    signs = [stream.below(2, count) << np.uint32(31) for _ in range(3)]
    return [_SPECIALS[stream.below(_SPECIALS.size, count)] | sign for sign in signs]


def _double_rounding(stream: Stream, count: int) -> list[U32]:
    """x y is half a last place of z but for 2^-2j of it, and z is odd.

    In float64 the sum is a tie for j > 14, which a second rounding takes to even: one place off.
    """
    z = float_bits(stream, -60, 60, count) | np.uint32(1)
    half_place = ((z >> np.uint32(23)) & np.uint32(0xFF)).astype(np.int32) - 127 - 24
    j = stream.below(11, count).astype(np.int32) + 13
    split = stream.below(61, count).astype(np.int32) - 30
    sign = 1.0 - 2.0 * stream.below(2, count).astype(np.float64)
    x = np.ldexp(sign * (1.0 + np.ldexp(1.0, -j)), split)
    y = np.ldexp(1.0 - np.ldexp(1.0, -j), half_place - split)
    return [x.astype(np.float32).view(np.uint32), y.astype(np.float32).view(np.uint32), z]


def _cancelling(stream: Stream, count: int) -> list[U32]:
    x, y = (float_bits(stream, -20, 20, count) for _ in range(2))
    product = -(x.view(np.float32).astype(np.float64) * y.view(np.float32))
    z = product.astype(np.float32).view(np.uint32) + stream.below(3, count) - np.uint32(1)
    return [x, y, z.astype(np.uint32)]


def _subnormal(stream: Stream, count: int) -> list[U32]:
    x, y = float_bits(stream, -90, -40, count), float_bits(stream, -90, -40, count)
    z = float_bits(stream, -126, -120, count)
    subnormal = (z & np.uint32(0x807FFFFF)) >> stream.below(2, count) * np.uint32(8)
    return [x, y, np.where(stream.below(2, count) == 0, subnormal, z).astype(np.uint32)]


def _tiny_quotients(stream: Stream, count: int) -> list[U32]:
    x, y = float_bits(stream, -126, -90, count), float_bits(stream, 20, 127, count)
    return [x, y, float_bits(stream, -126, 127, count)]


def _any_bits(stream: Stream, count: int) -> list[U32]:
    return [(stream.raw(count) >> np.uint64(32)).astype(np.uint32) for _ in range(3)]


def _near(stream: Stream, count: int) -> list[U32]:
    return [float_bits(stream, -14, 14, count) for _ in range(3)]


_KINDS = (
    _special_triples,
    _double_rounding,
    _cancelling,
    _subnormal,
    _tiny_quotients,
    _any_bits,
    _near,
)


def arith_operands(count: int) -> NDArray[np.uint32]:
    """Bits of operand triples, (3, 7 * count)."""
    stream = Stream("arith")
    with np.errstate(all="ignore"):
        parts = [kind(stream, count) for kind in _KINDS]
    return np.stack([np.concatenate([part[i] for part in parts]) for i in range(3)])


def binade_inputs(per_binade: int) -> NDArray[np.uint32]:
    """Bits of float32 numbers: edges and random fractions of all 512 sign and exponent fields."""
    stream = Stream("binades")
    fraction = stream.below(1 << 23, 512, per_binade)
    fraction[:, :4] = [0, 1, 0x400000, 0x7FFFFF]
    return (fraction | (np.arange(512, dtype=np.uint32) << np.uint32(23))[:, None]).ravel()
