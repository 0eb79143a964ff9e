"""acc, out, dot, grad, vmis and accdP: sums in fp32 and the tensor core, stores, operand casts.

    acc     per channel |O32 - sum_j P~ V^f|, times |dO'|
            dequantised  weight and V^ rounded once each, an fp32 dot of n products, a quotient:
                         ((1 + U)^3 (1 + n U) - 1) sum_j P~ |V^|
            codes        per window the tensor core's bound on codes; the window's factor, one fma
                         a window and the normalisation: (1 + U)^(W + 2) - 1
    out     per channel half an ulp of the store at O32; |O32| where it saturates
    dot     fp32 dot over channels of what delta reads
    grad    per channel max(|x| / 17, s 2^-10) + 4 U |x| (s the block's scale), or |x| (1 + 8 U)
            where that is less, times |sum_j P~ V^f|; other formats of dO have their own numbers
            (``rounding``), BF16 none
    vmis    0: one rounding of V serves both passes
    accdP   per element |dP - dP*|, times P: an fp32 dot of two rounded operands, or the tensor
            core's chain over channels and the rounding of the tile's factor

Underflow adds half a fp32 subnormal (2^-150) a product, times the other factor where an operand was
rounded. Sources: Higham 2002, section 3.1; Jeannerod and Rump 2013; the tensor core's model.
"""

from __future__ import annotations

import numpy as np

from dmverify.spec.case import F64
from dmverify.spec.ledger.bounds.constants import (
    CAST_ROUNDINGS,
    E4M3_MAX,
    E4M3_SMALLEST_NORMAL,
    FP32_SMALLEST_NORMAL,
    TWO_U64,
    UNDERFLOW_ERROR,
    U,
)
from dmverify.spec.ledger.bounds.magnitudes import (
    Magnitudes,
    channel_error,
    compound,
    largest,
    path,
    total,
)
from dmverify.spec.ledger.bounds.rounding import overflow_of, stored_rounding
from dmverify.spec.ledger.bounds.softmax import window_unit
from dmverify.spec.ledger.bounds.tensor_core import chain_error

ROUNDED_OPERANDS = 2  # code x scale as an fp32 number, on both sides of a dot


def acc_bound(sizes: Magnitudes) -> F64:
    """sum_k |dO'| bound(|O32 - sum_j P~ V^f|), (M,)."""
    error = _ACC[sizes.schedule.kind](sizes)
    return total(np.abs(sizes.block.do_read) * error)


def _acc_dequantised(sizes: Magnitudes) -> F64:
    relative = compound(path(ROUNDED_OPERANDS + 1), sizes.keys * U)
    factors = largest(np.abs(sizes.block.v_forward).T) + largest(sizes.forward_p)[:, None]
    under = UNDERFLOW_ERROR * ((sizes.keys + 1) * (1 + sizes.keys * U))[:, None] * (2 + factors)
    return np.asarray(relative[:, None] * sizes.forward_o + under)


def _acc_codes(sizes: Magnitudes) -> F64:
    block = sizes.block
    unit = np.abs(1 / block.norm if block.norm_divides else block.norm)[:, None]
    error = np.zeros_like(block.o32)
    v_floor = np.ones(block.v.shape[1]) * E4M3_SMALLEST_NORMAL
    for start in range(0, block.p.shape[1], sizes.width):
        cut = slice(start, start + sizes.width)
        weights, v = np.abs(block.weights[:, cut]), np.abs(block.v_forward[cut])
        floor = window_unit(sizes, weights) * E4M3_SMALLEST_NORMAL
        scale = block.v_scale[cut].max(initial=0.0)
        error += chain_error(weights, v.T, x_floor=floor, y_floor=v_floor * scale)
    relative = path(sizes.windows + ROUNDED_OPERANDS)
    under = sizes.windows * sizes.width * E4M3_MAX**2 * 2 * UNDERFLOW_ERROR
    return np.asarray(relative * (sizes.forward_o + error * unit) + (error + under) * unit)


def out_bound(sizes: Magnitudes) -> F64:
    """sum_k |dO'| half an ulp of the store, (M,)."""
    size, own = np.abs(sizes.block.o32), stored_rounding(sizes.store)
    if own.exact:
        return np.zeros(sizes.block.rows)
    half = np.maximum(np.ldexp(own.half_unit, np.frexp(size)[1] - 1), own.absolute)
    if sizes.store.saturate:
        half = np.where(size >= overflow_of(sizes.store.fmt), size, half)
    return total(np.abs(sizes.block.do_read) * half * (size > 0))


def dot_bound(sizes: Magnitudes) -> F64:
    """The fp32 dot of dO' with the O that delta reads, (M,)."""
    block = sizes.block
    o = block.o32 if sizes.delta_mode.reads_unstored else block.o
    size = total(np.abs(block.do_read) * np.abs(o))
    scaled = path(0 if sizes.delta_mode.reads_input else 1)  # code x scale, before or after
    under = UNDERFLOW_ERROR * (block.v.shape[1] + 1) * (1 + largest(np.abs(o)))
    if sizes.windowed:
        under = under * np.maximum(block.do_scale, 1.0)
    return np.asarray(compound(channel_error(sizes), scaled) * size + under)


def grad_bound(sizes: Magnitudes) -> F64:
    """sum_k bound(|dO^ - dO|) |sum_j P~ V^f|, (M,)."""
    block = sizes.block
    size, scale, own = np.abs(block.do_input), block.do_scale[:, None], sizes.roundings["do"]
    if own.exact:
        return np.zeros(block.rows)
    error = np.maximum(size * own.relative, scale * own.absolute)
    error = error + size * path(CAST_ROUNDINGS + 1)
    error = np.minimum(error, size * (1 + path(2 * CAST_ROUNDINGS + 2)))  # cast-shrinks
    # A subnormal scale misses amax / 448 by any factor, and a scale of 1 knows no amax: all that is
    # known is |code| <= 448.
    blind = (scale < FP32_SMALLEST_NORMAL) | (size > scale * own.scaled * (1 + 2 * U))
    error = np.where(blind, size + own.largest * scale, error)
    keys = block.p.shape[1]
    o = np.abs(sizes.forward_p @ block.v_forward) + (keys + 1) * TWO_U64 * sizes.forward_o
    return total(error * o)


def vmis_bound(sizes: Magnitudes) -> F64:
    """Nothing: both passes read one V^."""
    return np.zeros(sizes.block.rows)


def accdp_bound(sizes: Magnitudes) -> F64:
    """sum_j P bound(|dP - dP*|), (M,)."""
    return total(sizes.block.p * _DP[sizes.schedule.kind](sizes))


def _dp_dequantised(sizes: Magnitudes) -> F64:
    block, channels = sizes.block, sizes.block.v.shape[1]
    relative = compound(path(ROUNDED_OPERANDS), channels * U)
    factors = largest(np.abs(block.do))[:, None] + largest(np.abs(block.v))[None, :]
    under = UNDERFLOW_ERROR * (channels + 1) * (1 + channels * U) * (2 + factors)
    return np.asarray(relative * sizes.products + under)


def _dp_codes(sizes: Magnitudes) -> F64:
    block, channels = sizes.block, sizes.block.v.shape[1]
    error = chain_error(
        np.abs(block.do),
        np.abs(block.v),
        x_floor=block.do_scale * E4M3_SMALLEST_NORMAL,
        y_floor=block.v_scale * E4M3_SMALLEST_NORMAL,
    )
    under = channels * E4M3_MAX**2 * UNDERFLOW_ERROR
    return np.asarray(error + path(1) * (sizes.products + error) + under)


_ACC = {"rows": _acc_dequantised, "windows": _acc_codes}
_DP = {"rows": _dp_dequantised, "windows": _dp_codes}
