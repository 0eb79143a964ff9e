"""Exact row sums of float64 numbers and of their products, fast.

Rule, with x = m 2^e, m an odd integer of at most 53 bits:
1. split m into pieces of 31 bits; a product x y is the sum of the products of their pieces, each
   below 2^62;
2. put a piece m 2^e into fixed-point bins of 32 bits: with e = 32 q + s (0 <= s < 32), the bits of
   |m| 2^s fall into bins q, q + 1 and q + 2, below 2^32 in each;
3. add bins per row in float64. Below 2^20 numbers at a time each bin stays below 2^52, so no
   addition rounds and the order does not matter;
4. read the bins of a row as one Python integer, exponent 32 q of the lowest bin.

| parameter | value | why |
|---|---|---|
| piece | 31 bits | a product of two pieces fits 62 bits of an int64 |
| bin | 32 bits | a piece times 2^31 covers at most three bins |
| batch | 2^20 numbers | 2^20 x 2^32 < 2^53, float64's exact integers |

Source: Kulisch's long accumulator, laid out for numpy. A matrix product is split into slices whose
products BLAS forms without rounding (Ozaki, Ogita, Oishi, Rump 2012, error-free transformation of a
matrix product), and the slices go through the same bins.
Not covered: NaN and infinity (refused), float64 results (see ``rows.Rows``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dmverify.errors import InputError
from dmverify.spec.case import F64
from dmverify.spec.ledger.rows import Rows

I64 = npt.NDArray[np.int64]

PIECE_BITS = 31
BIN_BITS = 32
BATCH = 1 << 20
MANTISSA_BITS = 53


@dataclass(frozen=True)
class Scaled:
    """Numbers as integers times powers of two, value = mantissa 2^exponent, elementwise.

    Attributes:
        mantissa: int64, odd or 0, below 2^53 in magnitude.
        exponent: int64, the same shape.
    """

    mantissa: I64
    exponent: I64

    @classmethod
    def of(cls, x: F64) -> Scaled:
        """The numbers of a finite float64 array.

        Raises:
            InputError: If one is NaN or infinite.
        """
        require_finite(x)
        fraction, exponent = np.frexp(x)
        mantissa = np.ldexp(fraction, MANTISSA_BITS).astype(np.int64)
        lowest = (mantissa & -mantissa).astype(np.float64)  # a power of two, exact
        zeros = np.where(mantissa == 0, 0, np.frexp(lowest)[1] - 1).astype(np.int64)
        return cls(mantissa >> zeros, exponent.astype(np.int64) - MANTISSA_BITS + zeros)

    def pieces(self) -> Iterator[tuple[I64, I64]]:
        """Integers below 2^31 in magnitude with exponents; their sum is the numbers."""
        sign, size = np.sign(self.mantissa), np.abs(self.mantissa)
        shift = 0
        while shift == 0 or size.any():
            yield sign * (size & ((1 << PIECE_BITS) - 1)), self.exponent + shift
            size = size >> PIECE_BITS
            shift += PIECE_BITS


@dataclass(frozen=True)
class Product:
    """An exact matrix product as a sum of slices, each value = integer 2^exponent.

    Attributes:
        slices: Pairs of int64 arrays (M, N): integers below 2^53 in magnitude, exponents.
    """

    slices: tuple[tuple[I64, I64], ...]


def exact_sum(x: F64) -> Rows:
    """Exact sum of each row of x, (M, N) -> M."""
    scaled = Scaled.of(x)
    return _collect([(scaled.mantissa, scaled.exponent)], x.shape[0])


def exact_dot(x: F64, y: F64 | Product) -> Rows:
    """Exact sum over j of x_ij y_ij for each row i; both (M, N)."""
    left = list(Scaled.of(x).pieces())
    factors = y.slices if isinstance(y, Product) else _slices_of(y)
    terms: list[tuple[I64, I64]] = []
    for integers, exponent in factors:
        for right, right_exponent in Scaled(integers, exponent).pieces():
            terms += [(m * right, e + right_exponent) for m, e in left]
    return _collect(terms, x.shape[0])


def exact_matmul(x: F64, y: F64) -> Product:
    """The exact product x y^T, (M, D) and (N, D) -> (M, N), for finite entries.

    Each row is cut into slices of integers below 2^b; with 2 b + log2(D S) <= 53, S slices, every
    sum of products that share an exponent is an integer below 2^53 and float64 forms it exactly.
    """
    require_finite(x)
    require_finite(y)
    width = x.shape[1]
    bits = _slice_bits(width, x, y)
    left, right = _slice_rows(x, bits), _slice_rows(y, bits)
    (a, a_top), (b, b_top) = left, right
    if not a or not b:
        return Product(())
    top = a_top[:, None] + b_top[None, :]
    out = []
    for level in range(len(a) + len(b) - 1):
        pairs = [(i, level - i) for i in range(len(a)) if 0 <= level - i < len(b)]
        total = sum(a[i] @ b[j].T for i, j in pairs)
        out.append((np.asarray(total).astype(np.int64), top - bits * (level + 2)))
    return Product(tuple(out))


def require_finite(x: F64) -> None:
    """Raises InputError unless every element is finite."""
    if not np.isfinite(x).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
        raise InputError(
            f"{float(x[where])} at {where}",
            rule="exact sums are defined for finite numbers",
            fix="leave such rows out",
        )


def _slices_of(y: F64) -> tuple[tuple[I64, I64], ...]:
    scaled = Scaled.of(y)
    return ((scaled.mantissa, scaled.exponent),)


def _slice_bits(width: int, *matrices: F64) -> int:
    """Bits of a slice; counts the slices first with the narrowest width that could be needed."""
    spread = max(_spread(x) for x in matrices)
    for bits in range((MANTISSA_BITS - max(width - 1, 1).bit_length()) // 2, 0, -1):
        slices = -(-spread // bits) + 1
        if 2 * bits + (width * slices - 1).bit_length() <= MANTISSA_BITS:
            return bits
    raise InputError(
        f"{width} channels",
        rule="a slice holds at least one bit",
        fix="contract fewer channels at a time",
    )


def _spread(x: F64) -> int:
    """Bits from the top of a row's largest element to its last nonzero bit, the worst row."""
    scaled = Scaled.of(x)
    nonzero = scaled.mantissa != 0
    if not nonzero.any():
        return 0
    top = np.where(nonzero, np.frexp(x)[1], -(1 << 20)).max(axis=1)
    low = np.where(nonzero, scaled.exponent, 1 << 20).min(axis=1)
    return int(np.maximum(top - low, 0).max())


def _slice_rows(x: F64, bits: int) -> tuple[list[F64], I64]:
    """Integer slices below 2^bits, and t of each row: x = sum_s slice_s 2^(t - bits (s + 1))."""
    top = np.where(x != 0, np.frexp(x)[1], -1100).max(axis=1, initial=-1100).astype(np.int64)
    rest = x.copy()
    out: list[F64] = []
    while rest.any():
        unit = (top - bits * (len(out) + 1))[:, None]
        integers = np.trunc(_ldexp(rest, -unit))
        rest = rest - _ldexp(integers, unit)
        out.append(integers)
    return out, top


def _ldexp(x: F64, exponent: I64) -> F64:
    """x 2^exponent in two steps: 2^exponent itself may lie outside float64."""
    half = exponent // 2
    return np.asarray(np.ldexp(np.ldexp(x, half), exponent - half))


def _collect(terms: list[tuple[I64, I64]], rows: int) -> Rows:
    """Steps 2 to 4 for integers below 2^62 with exponents, each (rows, N)."""
    live = [np.flatnonzero(mantissa) for mantissa, _ in terms]
    ends = [
        (int(e.ravel()[at].min()), int(e.ravel()[at].max()))
        for (_, e), at in zip(terms, live, strict=True)
        if at.size
    ]
    if not ends:
        return Rows.zeros(rows)
    low = min(end[0] for end in ends) // BIN_BITS
    count = max(end[1] for end in ends) // BIN_BITS - low + 3
    totals = np.zeros((rows, count), dtype=object)
    for (mantissa, exponent), at in zip(terms, live, strict=True):
        width = mantissa.shape[1]
        for start in range(0, at.size, BATCH):
            part = at[start : start + BATCH]
            m, e = mantissa.ravel()[part], exponent.ravel()[part]
            totals += _bins(m, e - low * BIN_BITS, part // width, rows, count)
    numerator = np.zeros(rows, dtype=object)
    for q in range(count):
        numerator += totals[:, q] << (BIN_BITS * q)
    return Rows(numerator, low * BIN_BITS)


def _bins(m: I64, e: I64, row: I64, rows: int, count: int) -> npt.NDArray[np.object_]:
    """Step 2 and 3 for one batch: integer bins (rows, count)."""
    sign = np.sign(m).astype(np.float64)
    size, shift = np.abs(m).astype(np.uint64), (e % BIN_BITS).astype(np.uint64)
    mask = np.uint64((1 << BIN_BITS) - 1)
    above = size >> (np.uint64(BIN_BITS) - shift)
    limbs = ((size << shift) & mask, above & mask, above >> np.uint64(BIN_BITS))
    cell = row * count + e // BIN_BITS
    bins = np.zeros(rows * count)
    for offset, limb in enumerate(limbs):
        weights = sign * limb.astype(np.float64)
        bins += np.bincount(cell + offset, weights=weights, minlength=rows * count)
    return bins.reshape(rows, count).astype(np.int64).astype(object)
