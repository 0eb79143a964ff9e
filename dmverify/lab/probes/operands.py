"""Operands for the tensor-core probes: random codes and the patterns that separate wrong models.

Everything comes from a SplitMix64 stream and integer arithmetic of our own, so that a family name
and a seed give the same operands on every machine and with every NumPy.

Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]

_GAMMA, _MIX1, _MIX2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


class Stream:
    """A SplitMix64 stream that is named by text."""

    def __init__(self, name: str) -> None:
        self.state = zlib.crc32(name.encode()) * _GAMMA & (1 << 64) - 1

    def raw(self, *shape: int) -> U64:
        """The next 64-bit integers of the stream, in the given shape."""
        count = int(np.prod(shape, dtype=np.int64))
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GAMMA)
        z = steps + np.uint64(self.state)
        self.state = (self.state + count * _GAMMA) & (1 << 64) - 1
        z = (z ^ (z >> np.uint64(30))) * np.uint64(_MIX1)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(_MIX2)
        return (z ^ (z >> np.uint64(31))).reshape(shape)

    def below(self, limit: int, *shape: int) -> U32:
        """Integers in [0, limit) by multiply and shift of the high 32 bits."""
        high = self.raw(*shape) >> np.uint64(32)
        return ((high * np.uint64(limit)) >> np.uint64(32)).astype(np.uint32)


@dataclass(frozen=True)
class CodeSpace:
    """What an operand generator must know of an 8-bit format.

    Attributes:
        name: PTX type name.
        mantissa_bits: Stored fraction bits.
        largest: Largest positive finite code.
        specials: Positive codes that are Inf or NaN.
    """

    name: str
    mantissa_bits: int
    largest: int
    specials: tuple[int, ...]

    def finite(self, stream: Stream, *shape: int) -> U8:
        """Uniform finite codes of both signs."""
        magnitude = stream.below(self.largest + 1, *shape)
        return (magnitude | stream.below(2, *shape) << np.uint32(7)).astype(np.uint8)


E4M3_CODES = CodeSpace("e4m3", 3, 0x7E, (0x7F,))
E5M2_CODES = CodeSpace("e5m2", 2, 0x7B, (0x7C, 0x7D, 0x7E, 0x7F))
CODES = {space.name: space for space in (E4M3_CODES, E5M2_CODES)}


@dataclass(frozen=True)
class Operands:
    """Operands of a batch of tiles.

    Attributes:
        a: Codes, (tiles, 64, k).
        b: Codes, (tiles, n, k).
        c: Bits of the float32 accumulator, (tiles, 64, n).
    """

    a: U8
    b: U8
    c: U32


def float_bits(stream: Stream, low: int, high: int, *shape: int) -> U32:
    """Bits of float32 numbers: exponents in [low, high], random signs and fractions."""
    field = stream.below(high - low + 1, *shape) + np.uint32(low + 127)
    rest = stream.below(1 << 24, *shape)
    sign = (rest >> np.uint32(23)) << np.uint32(31)
    bits: U32 = sign | field << np.uint32(23) | (rest & np.uint32(0x7FFFFF))
    return bits


def _sprinkle(stream: Stream, codes: U8, values: tuple[int, ...], one_in: int) -> U8:
    """Replaces one code in `one_in`, on average, by one of `values` with a random sign."""
    pick = np.asarray(values, np.uint8)[stream.below(len(values), *codes.shape)]
    signed = pick | (stream.below(2, *codes.shape) << np.uint32(7)).astype(np.uint8)
    return np.where(stream.below(one_in, *codes.shape) == 0, signed, codes).astype(np.uint8)


Shape = tuple[int, int, int]  # tiles, n, k


def _random(s: Stream, fa: CodeSpace, fb: CodeSpace, shape: Shape) -> Operands:
    tiles, n, k = shape
    a, b = fa.finite(s, tiles, 64, k), fb.finite(s, tiles, n, k)
    return Operands(a, b, float_bits(s, -24, 20, tiles, 64, n))


def _cancelling(s: Stream, fa: CodeSpace, fb: CodeSpace, shape: Shape) -> Operands:
    """The second half of each group of 32 negates the first but for a few codes."""
    tiles, n, k = shape
    a, b = fa.finite(s, tiles, 64, k), fb.finite(s, tiles, n, k)
    half_a, half_b = a.reshape(-1, k // 32, 2, 16), b.reshape(-1, k // 32, 2, 16)
    half_a[:, :, 1] = half_a[:, :, 0] ^ np.uint8(0x80)
    half_b[:, :, 1] = half_b[:, :, 0]
    a = np.where(s.below(24, *a.shape) == 0, fa.finite(s, *a.shape), a).astype(np.uint8)
    return Operands(a, b, float_bits(s, -30, 4, tiles, 64, n))


def _window(s: Stream, fa: CodeSpace, fb: CodeSpace, shape: Shape) -> Operands:
    """A few large products beside products 2^11 to 2^16 below them: the last kept bits."""
    tiles, n, k = shape
    unit = 1 << fa.mantissa_bits
    low, high = s.below(4 * unit, tiles, 64, k), s.below(2 * unit, tiles, 64, k)
    big = s.below(32, tiles, 64, k) < 2
    a = np.where(big, np.uint32(fa.largest + 1 - 2 * unit) + high % np.uint32(2 * unit - 1), low)
    a = (a | s.below(2, *a.shape) << np.uint32(7)).astype(np.uint8)
    b = fb.finite(s, tiles, n, k) % np.uint8(3 << fb.mantissa_bits) + np.uint8(
        5 << fb.mantissa_bits
    )
    b = np.minimum(b, np.uint8(fb.largest))
    return Operands(a, b.astype(np.uint8), float_bits(s, -14, 12, tiles, 64, n))


def _zeros(s: Stream, fa: CodeSpace, fb: CodeSpace, shape: Shape) -> Operands:
    """Nearly all products zero beside a subnormal, tiny or zero accumulator."""
    tiles, n, k = shape
    a, b = fa.finite(s, tiles, 64, k), fb.finite(s, tiles, n, k)
    a = np.where(s.below(24, *a.shape) > 0, a & np.uint8(0x80), a).astype(np.uint8)
    c = float_bits(s, -127, -18, tiles, 64, n)
    kind = s.below(4, *c.shape)
    c = np.where(kind == 0, c & np.uint32(0x80FFFFFF) & ~np.uint32(0x800000), c)  # subnormal
    c = np.where(kind == 1, c & np.uint32(0x80000000), c)  # zeros of both signs
    return Operands(a, b, c.astype(np.uint32))


def _accumulator_bits(s: Stream, fa: CodeSpace, fb: CodeSpace, shape: Shape) -> Operands:
    """Any 32 bits as the accumulator, one in eight of them Inf or NaN."""
    tiles, n, k = shape
    a, b = fa.finite(s, tiles, 64, k), fb.finite(s, tiles, n, k)
    c = (s.raw(tiles, 64, n) >> np.uint64(32)).astype(np.uint32)
    special = s.below(16, *c.shape)
    c = np.where(special == 0, c | np.uint32(0x7F800000), c)
    c = np.where(special == 1, (c | np.uint32(0x7F800000)) & np.uint32(0xFF800000), c)
    return Operands(a, b, c.astype(np.uint32))


def _special_codes(s: Stream, fa: CodeSpace, fb: CodeSpace, shape: Shape) -> Operands:
    """Now and then a NaN (and, in E5M2, an Inf) code, and Inf or NaN accumulators."""
    tiles, n, k = shape
    a = _sprinkle(s, fa.finite(s, tiles, 64, k), fa.specials, 16 * k)
    b = _sprinkle(s, fb.finite(s, tiles, n, k), fb.specials, 8 * k)
    a = np.where(s.below(8, *a.shape) == 0, a & np.uint8(0x80), a).astype(np.uint8)
    c = float_bits(s, -8, 24, tiles, 64, n)
    c = np.where(s.below(32, *c.shape) == 0, c | np.uint32(0x7F800000), c)
    return Operands(a, b, c.astype(np.uint32))


def _subnormal(s: Stream, fa: CodeSpace, fb: CodeSpace, shape: Shape) -> Operands:
    """Subnormal and smallest normal codes against any codes."""
    tiles, n, k = shape
    a = s.below(3 << fa.mantissa_bits, tiles, 64, k) | s.below(2, tiles, 64, k) << np.uint32(7)
    b = fb.finite(s, tiles, n, k)
    small = s.below(2 << fb.mantissa_bits, *b.shape) | s.below(2, *b.shape) << np.uint32(7)
    b = np.where(s.below(2, *b.shape) == 0, small, b)
    return Operands(a.astype(np.uint8), b.astype(np.uint8), float_bits(s, -30, 0, tiles, 64, n))


def _same_sign(s: Stream, fa: CodeSpace, fb: CodeSpace, shape: Shape) -> Operands:
    """Large positive products: the largest sums; accumulators up to the largest float32."""
    tiles, n, k = shape
    a = np.uint32(fa.largest) - s.below(3 << fa.mantissa_bits, tiles, 64, k)
    b = np.uint32(fb.largest) - s.below(3 << fb.mantissa_bits, tiles, n, k)
    c = float_bits(s, 8, 34, tiles, 64, n)
    c = np.where(s.below(64, *c.shape) == 0, np.uint32(0x7F7FFFFF), c)
    return Operands(a.astype(np.uint8), b.astype(np.uint8), c.astype(np.uint32))


def _attention(s: Stream, fa: CodeSpace, fb: CodeSpace, shape: Shape) -> Operands:
    """Bell-shaped codes of moderate size and an accumulator of the sum's own size."""
    tiles, n, k = shape
    mid = 8 << fa.mantissa_bits if fa.mantissa_bits == 3 else 16 << fa.mantissa_bits

    def bell(space: CodeSpace, *dims: int) -> U8:
        spread = sum(s.below(3 << space.mantissa_bits, *dims) for _ in range(3))
        code = np.minimum(spread + np.uint32(mid // 2), np.uint32(space.largest))
        signed: U8 = (code | s.below(2, *dims) << np.uint32(7)).astype(np.uint8)
        return signed

    a, b = bell(fa, tiles, 64, k), bell(fb, tiles, n, k)
    return Operands(a, b, float_bits(s, -4, 6, tiles, 64, n))


Family = Callable[[Stream, CodeSpace, CodeSpace, Shape], Operands]
FAMILIES: dict[str, Family] = {
    "random": _random,
    "cancelling": _cancelling,
    "window": _window,
    "zeros": _zeros,
    "accumulator-bits": _accumulator_bits,
    "special-codes": _special_codes,
    "subnormal": _subnormal,
    "same-sign": _same_sign,
    "attention": _attention,
}


def operands(family: str, a_type: str, *, b_type: str, shape: Shape, seed: int = 0) -> Operands:
    """Operands of one family.

    Args:
        family: Key of `FAMILIES`.
        a_type: PTX type of A, key of `CODES`.
        b_type: PTX type of B.
        shape: Tiles, n and k.
        seed: Part of the stream's name.
    """
    stream = Stream(f"{family}/{a_type}/{b_type}/{shape}@{seed}")
    return FAMILIES[family](stream, CODES[a_type], CODES[b_type], shape)
