"""The FP8 tensor core with an f32 accumulator, bit-exact and fast, on numpy or torch arrays.

Equal to `wgmma_reference` in every bit. A k32 step is two passes over a tile that stays in cache:

1. E: the maximum over k of e_a + e_b in int8, with the exponent of C. A zero operand has exponent
   `ZERO_EXPONENT`, so low that a product with it never reaches the maximum.
2. T: for each k the outer product times 2^(13 - E), truncated and added, all in float32.

Why float32 is exact here: a product of two FP8 values has at most 8 significant bits; scaling by a
power of two keeps them; a truncated term is an integer below 2^15 and 33 of them add to below 2^20.

| constant | value | why |
|---|---|---|
| `ZERO_EXPONENT` | -60 | plus 15 is below the least product exponent -28, and twice it fits int8 |
| `NO_TERM` | -127 | below every accumulator exponent |
| `_TILE` | 2^16 | three float32 tiles fit a 1 MiB second-level cache |

Not covered: NaN and infinities (`wgmma_special`) and f16 accumulators (`wgmma_reference`).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from dmverify.cores import usable_cores
from dmverify.spec.lemmas import rests_on
from dmverify.spec.namespace import Array, astype, bitcast, namespace_of

GROUP = 32
FRACTION_BITS = 13
ZERO_EXPONENT = -60
NO_TERM = -127
_LEAST_PRODUCT = -40  # between ZERO_EXPONENT + 15 and -28
_LOW_BITS = 0x3FF  # the 10 bits that a 14-bit significand leaves of float32's 24
_TILE = {"numpy": 1 << 16, "torch": 1 << 24}
_THREADED_FROM = 1 << 21  # multiply-adds below which a second thread does not pay

Tile = tuple[slice, slice, slice]


@rests_on("wgmma-transpose")
def wgmma_finite(a: Array, b: Array, c: Array, *, a_emin: int, b_emin: int) -> Array:
    """Chained k32 steps on finite decoded operands.

    Args:
        a: float32 values of one FP8 format, (batch, M, K).
        b: float32 values of one FP8 format, (batch, N, K).
        c: Finite float32 accumulators, (batch, M, N).
        a_emin: Least exponent of the format of `a` (-6 for E4M3, -14 for E5M2).
        b_emin: Least exponent of the format of `b`.

    Returns:
        D, float32, (batch, M, N).
    """
    if b.shape[-2] < a.shape[-2]:  # B A^T is the transpose bit for bit; long rows run faster
        transposed = c.swapaxes(-1, -2)
        return wgmma_finite(b, a, transposed, a_emin=b_emin, b_emin=a_emin).swapaxes(-1, -2)
    xp = namespace_of(c)
    left = _by_k(a)[..., :, None]
    right = _by_k(b)[..., None, :]
    operands = (left, right, _exponents(left, a_emin), _exponents(right, b_emin))
    d = xp.empty(c.shape, dtype=xp.float32, device=c.device)

    def run(tile: Tile) -> None:
        batch, rows, columns = tile
        parts = (
            [x[:, batch, rows] for x in operands[::2]],
            [x[:, batch, :, columns] for x in operands[1::2]],
        )
        d[tile] = _chain(xp, parts[0], parts[1], c[tile])

    _for_each(run, list(_tiles(c.shape, xp.__name__)), work=c.size * a.shape[-1] if xp is np else 0)
    return d


def _by_k(x: Array) -> Array:
    """(batch, rows, K) to contiguous (K, batch, rows)."""
    xp = namespace_of(x)
    return xp.moveaxis(x, -1, 0).copy() if xp is np else xp.moveaxis(x, -1, 0).contiguous()


def _exponents(x: Array, emin: int) -> Array:
    """Unnormalised exponents as int8; a zero has `ZERO_EXPONENT`."""
    xp = namespace_of(x)
    field = ((bitcast(x, "int32") >> 23) & 0xFF) - 127
    return astype(xp.where(x == 0, ZERO_EXPONENT, xp.clip(field, emin, 127)), "int8")


def _tiles(shape: tuple[int, ...], library: str) -> Iterator[Tile]:
    """Slices of (batch, M, N) of about `_TILE` elements, long along N."""
    size = _TILE[library]
    batch, rows, columns = shape
    n = min(columns, size // 16)
    m = min(rows, max(1, size // max(n, 1)))
    k = max(1, size // max(n * m, 1))
    for i in range(0, batch, k):
        for j in range(0, rows, m):
            for column in range(0, columns, n):
                yield slice(i, i + k), slice(j, j + m), slice(column, column + n)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(usable_cores())


def _for_each(run: Any, tiles: list[Tile], *, work: int) -> None:
    """Applies `run` to all tiles, in threads if there is enough numpy work (it frees the GIL)."""
    if work < _THREADED_FROM:
        for tile in tiles:
            run(tile)
    else:
        list(_pool().map(run, tiles))


@rests_on("product-exact", "wgmma-no-overflow")
def _chain(xp: Any, left: list[Array], right: list[Array], c: Array) -> Array:
    """All k32 steps of one tile; `left` and `right` are values and exponents with k leading."""
    term = xp.empty(c.shape, dtype=xp.float32, device=c.device)
    total = xp.empty(c.shape, dtype=xp.float32, device=c.device)
    exponent = xp.empty(c.shape, dtype=xp.int8, device=c.device)
    largest = xp.empty(c.shape, dtype=xp.int8, device=c.device)
    (a, ea), (b, eb) = left, right
    for k in range(0, a.shape[0], GROUP):
        step = range(k, k + GROUP)
        xp.add(ea[k], eb[k], out=largest)
        for i in step[1:]:
            xp.add(ea[i], eb[i], out=exponent)
            xp.maximum(largest, exponent, out=largest)
        unit = _with_accumulator(xp, largest, c)
        scale = _power_of_two(FRACTION_BITS - xp.clip(unit, ZERO_EXPONENT, 100))
        total[...] = xp.trunc(_scaled(c, FRACTION_BITS - unit))
        for i in step:
            xp.multiply(a[i], b[i], out=term)
            xp.multiply(term, scale, out=term)
            xp.trunc(term, out=term)
            xp.add(total, term, out=total)
        c = _result(xp, total, unit)
    return c


def _with_accumulator(xp: Any, largest: Array, c: Array) -> Array:
    """E as int32: the larger of the products' and C's exponent, `NO_TERM` if all terms are zero."""
    bits = bitcast(c, "int32") & 0x7FFFFFFF
    own = xp.where(bits == 0, NO_TERM, xp.clip((bits >> 23) - 127, -126, 127))
    products = astype(largest, "int32")
    return xp.maximum(xp.where(products < _LEAST_PRODUCT, NO_TERM, products), own)


def _power_of_two(exponent: Array) -> Array:
    """2^exponent as float32, for int32 exponents of normal numbers."""
    return bitcast((exponent + 127) << 23, "float32")


def _scaled(x: Array, exponent: Array) -> Array:
    """x 2^exponent in two factors, since one of them may leave float32's range."""
    half = exponent >> 1
    return x * _power_of_two(half) * _power_of_two(exponent - half)


@rests_on("wgmma-final-truncation")
def _result(xp: Any, total: Array, unit: Array) -> Array:
    """T 2^(E - 13) with the magnitude of T truncated to 14 significant bits; zero is +0."""
    kept = bitcast(bitcast(total, "int32") & ~_LOW_BITS, "float32")
    return _scaled(kept + 0.0, unit - FRACTION_BITS)
