"""The quadratic interpolator that ex2, lg2 and rcp share, in integers.

A 23-bit fraction is cut into a segment number k (its upper bits) and an offset x (its lower bits):

1. S = the truncated square of x, left-aligned to 17 bits: of the partial products of x^2 those of
   weight below 2^19 are left out before adding; S is the sum over 2^19 (15 bits).
2. F = c0[k] 2^a + c1[k] x + c2[k] S 2^b + bias, exactly; its unit is 2^-15 of the last place.
3. The result is F without its low bits (truncation).

| function | segments | offset bits | a | b | bias | unit of F |
|---|---|---|---|---|---|---|
| ex2 | 64 | 17 | 13 | 0 | 6114 | 2^-38 |
| lg2 | 64 | 17 | 12 | 1 | 837 | 2^-38 |
| rcp | 128 | 16 | 13 | 0 | 2023 | 2^-39 |

Source: structure after Oberman and Siu, "A High-Performance Area-Efficient Multifunction
Interpolator" (ARITH 2005); all widths, the squarer and the constants measured on an H200.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmverify.spec.machine.hopper.mufu_tables import EX2, LG2, RCP, Rows
from dmverify.spec.namespace import Array, namespace_of

FRACTION_BITS = 23
SQUARER_BITS = 17
DROPPED_BELOW = 19
UNIT_BITS = 15


@dataclass(frozen=True)
class Interpolation:
    """One function's row of the parameter table.

    Attributes:
        rows: Coefficients per segment.
        offset_bits: Width of x.
        c0_shift: a.
        c2_shift: b.
        bias: Added before truncation.
    """

    rows: Rows
    offset_bits: int
    c0_shift: int
    c2_shift: int
    bias: int


EX2_TABLE = Interpolation(EX2, 17, 13, 0, 6114)
LG2_TABLE = Interpolation(LG2, 17, 12, 1, 837)
RCP_TABLE = Interpolation(RCP, 16, 13, 0, 2023)


def interpolate(table: Interpolation, fraction: Array) -> Array:
    """F for int64 fractions of 23 bits, int64."""
    c0, c1, c2 = _constants(table, namespace_of(fraction), str(fraction.device))
    square = _squares(namespace_of(fraction), str(fraction.device))
    segment = fraction >> table.offset_bits
    x = fraction & ((1 << table.offset_bits) - 1)
    return (
        c0[segment] + c1[segment] * x + c2[segment] * square[x << SQUARER_BITS - table.offset_bits]
    )


def truncated_square(x: NDArray[np.int64]) -> NDArray[np.int64]:
    """Step 1, from its definition: the kept partial products of x^2 for x of 17 bits, over 2^19."""
    bits = [(x >> i) & 1 for i in range(SQUARER_BITS)]
    total = np.zeros_like(x)
    for i, bit in enumerate(bits):
        if 2 * i >= DROPPED_BELOW:
            total += bit << 2 * i
        for j in range(i + 1, SQUARER_BITS):
            if i + j + 1 >= DROPPED_BELOW:
                total += (bit & bits[j]) << i + j + 1
    return total >> DROPPED_BELOW


@cache
def _squares(xp: Any, device: str) -> Array:
    """All truncated squares, on the caller's device."""
    return xp.asarray(truncated_square(np.arange(1 << SQUARER_BITS)), device=device)


@cache
def _constants(table: Interpolation, xp: Any, device: str) -> tuple[Array, Array, Array]:
    """Coefficients in units of F, the bias in c0."""
    c0, c1, c2 = np.array(table.rows, np.int64).T
    scaled = (c0 << table.c0_shift) + table.bias, c1, c2 << table.c2_shift
    a, b, c = (xp.asarray(np.ascontiguousarray(x), device=device) for x in scaled)
    return a, b, c
