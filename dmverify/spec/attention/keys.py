"""Step 0 for enclosures: centred keys as sets, where the contract leaves the mean's order open.

    mean = sum / n, or sum * (1 / n), or the exact mean rounded once; the sum in float32, any order
    x = k - mean;  scale = amax / largest per block of rows;  code = round(x / scale)

The interval of the sum. Inputs are BF16, so most float32 additions are exact: an addition whose
result lies in binade e rounds only if one of its terms is no multiple of 2^(e-23), and then its
result is one. So an input that is no multiple of 2^(e-23) causes at most one rounding in binade e,
whatever the order, and each costs at most 2^(e-24). No partial sum exceeds N = max(sum of positive,
sum of negative inputs) plus the errors, which bounds e. Summing over the binades gives the error,
about 1000 times below (n - 1) U sum |k| on random keys.

Not covered: the open order with another scale rule than amax / 448.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dmverify.spec.arithmetic.interface import Enclosing
from dmverify.spec.attention.casts import amax_scale
from dmverify.spec.attention.num import Num, broadcast, cast, largest, scale_down, where
from dmverify.spec.attention.operand_casts import operand_casts
from dmverify.spec.attention.operands import BlockScaled, Prepared, placed
from dmverify.spec.case import F32, F64
from dmverify.spec.constants import constant
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import Element
from dmverify.spec.lemmas import rests_on

FP32_BITS = int(constant("FP32_BITS"))
BF16_BITS = int(constant("BF16_BITS"))
U = float(constant("U"))
TWO_U64 = float(constant("TWO_U64"))
BINADES = 2 * FP32_BITS  # below the largest one; what is left is bounded at once


def enclose_centred_keys(
    a: Enclosing, contract: Contract, prepared: Prepared, batch: Any, kv_head: Any
) -> tuple[BlockScaled, Num] | None:
    """The keys of one head, or of each in an array of them, as sets with their mean.

    None where they are one number each. A contract whose mean has an open order quantises by
    amax / 448 of a head (``exclusions``).
    """
    if contract.centre_k != "mean" or "operands" not in a.casts:
        return None
    raw = prepared.k_input[batch, kv_head]
    rows, keys = prepared.tensors["k"][0].shape[-2], raw.shape[-2]
    padded = np.pad(raw, (*[(0, 0)] * (raw.ndim - 2), (0, rows - keys), (0, 0)))
    mean = Num(a.between(*mean_ends(raw)), a)
    held = [where((np.arange(rows) < keys)[:, None], placed(a)(padded) - mean, 0.0)]
    del padded, raw  # arrays of a long row's size, which the cast needs room beside
    operand = operand_casts(contract)["k"]
    return _quantised(min(operand.rows or rows, rows), held, operand.element), mean


def _quantised(block: int, held: list[Num], fmt: Element) -> BlockScaled:
    """The cast of one array, which it takes out of the list: nobody else then holds it."""
    x = held.pop()
    rows, channels = x.shape
    tiles = x.reshape(rows // block, 1, block * channels)
    scale = amax_scale(largest(abs(tiles), 2), fmt)
    held.append(scale_down(tiles, scale, fmt))
    del x, tiles
    codes = cast(held.pop(), fmt, site="operands", saturate=False)
    spread = broadcast(scale, (rows // block, block, 1)).reshape(rows, 1)
    return BlockScaled(codes.reshape(rows, channels), spread, fmt)


def mean_ends(k: F32) -> tuple[F32, F32]:
    """Ends of the float32 mean over the rows of BF16 numbers k, any order: (..., 1, D) each."""
    count = k.shape[-2]
    if not count:
        zero = np.zeros((*k.shape[:-2], 1, k.shape[-1]), np.float32)
        return zero, zero
    n = np.float32(count)
    wide = k.astype(np.float64)
    exact = wide.sum(-2, keepdims=True)
    slack = np.where(_sums_exactly(wide), 0.0, count * TWO_U64 * np.abs(wide).sum(-2))[..., None, :]
    radius = sum_error(wide)[..., None, :] + slack
    ends = [(exact - radius).astype(np.float32), (exact + radius).astype(np.float32)]
    means = [end / n for end in ends] + [end * (np.float32(1) / n) for end in ends]
    outward = slack / count + np.abs(exact) / count * TWO_U64
    means += [(exact / count + side).astype(np.float32) for side in (-outward, outward)]
    return np.minimum.reduce(means), np.maximum.reduce(means)


@rests_on("rn-error", "add-no-underflow")
def sum_error(wide: F64) -> F64:
    """Largest error of a float32 sum of BF16 numbers over the rows, any order: (..., D)."""
    n = wide.shape[-2]
    positive, negative = (np.maximum(side * wide, 0).sum(-2) for side in (1, -1))
    largest = np.maximum(positive, negative) * (1 + 2 * n * U)
    top = np.frexp(largest)[1] - 1  # binade of the largest partial sum
    grain = _lowest_bit(wide)
    error = np.zeros_like(positive)
    for step in range(BINADES):
        quantum = np.ldexp(1.0, top - step - (FP32_BITS - 1))
        error += (grain < quantum[..., None, :]).sum(-2) * quantum / 2
    tail = np.ldexp(1.0, top - BINADES - (FP32_BITS - 1))
    beyond = (grain < tail[..., None, :]).any(-2)
    return np.asarray(error + np.where(beyond, n * tail * 2, 0.0))


def _lowest_bit(x: F64) -> F64:
    """The largest power of two that divides a BF16 number, infinite for 0."""
    mantissa, exponent = np.frexp(x)
    digits = np.abs(np.ldexp(mantissa, BF16_BITS)).astype(np.int64)
    lowest = digits & -digits
    return np.where(digits == 0, np.inf, np.ldexp(lowest.astype(np.float64), exponent - BF16_BITS))


def _sums_exactly(wide: F64) -> np.typing.NDArray[np.bool_]:
    """Whether every partial sum fits float64: all are multiples of one grain, 2^52 of them."""
    return np.asarray(np.abs(wide).sum(-2) < _lowest_bit(wide).min(-2) / TWO_U64)
