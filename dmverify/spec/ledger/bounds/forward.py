"""acc, out, dot, grad, vmis and accdP: sums in fp32 and the tensor core, stores, operand casts.

    acc     per channel |O32 - sum_j P~ V^f|, times |dO'|
            dequantised  weight and V^ rounded once each, an fp32 dot of n products, a quotient:
                         ((1 + U)^3 (1 + n U) - 1) sum_j P~ |V^|
            codes        per window the tensor core's bound on codes; the window's factor, one fma
                         a window and the normalisation: (1 + U)^(W + 2) - 1
    out     per channel half an ulp of BF16 at O32
    dot     fp32 dot over channels of what delta reads
    grad    per channel max(|x| / 17, s 2^-10) + 4 U |x| (s the block's scale), or |x| (1 + 8 U)
            where that is less, times |sum_j P~ V^f|
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
    BF16_ABSOLUTE,
    BF16_BITS,
    CAST_ROUNDINGS,
    E4M3_ABSOLUTE,
    E4M3_MAX,
    E4M3_RELATIVE,
    E4M3_SMALLEST_NORMAL,
    ETA,
    FP32_SMALLEST_NORMAL,
    OUTWARD,
    U,
)
from dmverify.spec.ledger.bounds.facts import (
    Facts,
    channel_error,
    compound,
    largest,
    path,
    total,
)
from dmverify.spec.ledger.bounds.softmax import window_unit
from dmverify.spec.ledger.bounds.tensor_core import chain_error

ROUNDED_OPERANDS = 2  # code x scale as an fp32 number, on both sides of a dot


def acc_bound(facts: Facts) -> F64:
    """sum_k |dO'| bound(|O32 - sum_j P~ V^f|), (M,)."""
    error = _ACC[facts.contract.operand_form](facts)
    return total(np.abs(facts.sheet.do_read) * error)


def _acc_dequantised(facts: Facts) -> F64:
    relative = compound(path(ROUNDED_OPERANDS + 1), facts.keys * U)
    factors = largest(np.abs(facts.sheet.v_forward).T) + largest(facts.forward_p)[:, None]
    under = ETA * (facts.keys[:, None] + 1) * (2 + factors)
    return np.asarray(relative[:, None] * facts.forward_o + under)


def _acc_codes(facts: Facts) -> F64:
    sheet = facts.sheet
    unit = np.abs(1 / sheet.norm if sheet.norm_divides else sheet.norm)[:, None]
    error = np.zeros_like(sheet.o32)
    v_floor = np.ones(sheet.v.shape[1]) * E4M3_SMALLEST_NORMAL
    for start in range(0, sheet.p.shape[1], facts.width):
        cut = slice(start, start + facts.width)
        weights, v = np.abs(sheet.weights[:, cut]), np.abs(sheet.v_forward[cut])
        floor = window_unit(facts, weights) * E4M3_SMALLEST_NORMAL
        scale = sheet.v_scale[cut].max(initial=0.0)
        error += chain_error(weights, v.T, x_floor=floor, y_floor=v_floor * scale)
    relative = path(facts.windows + ROUNDED_OPERANDS)
    under = facts.windows * facts.width * E4M3_MAX**2 * 2 * ETA
    return np.asarray(relative * (facts.forward_o + error * unit) + (error + under) * unit)


def out_bound(facts: Facts) -> F64:
    """sum_k |dO'| half an ulp of BF16, (M,)."""
    size = np.abs(facts.sheet.o32)
    half = np.maximum(np.ldexp(1.0, np.frexp(size)[1] - 1 - BF16_BITS), BF16_ABSOLUTE)
    return total(np.abs(facts.sheet.do_read) * half * (size > 0))


def dot_bound(facts: Facts) -> F64:
    """The fp32 dot of dO' with the O that delta reads, (M,)."""
    sheet = facts.sheet
    o = sheet.o32 if facts.contract.delta == "associated" else sheet.o
    size = total(np.abs(sheet.do_read) * np.abs(o))
    scaled = path(0 if facts.contract.delta == "stale" else 1)  # code x scale, before or after
    under = ETA * (sheet.v.shape[1] + 1) * (1 + largest(np.abs(o)))
    if facts.contract.operand_form == "codes":
        under = under * np.maximum(sheet.do_scale, 1.0)
    return np.asarray(compound(channel_error(facts), scaled) * size + under)


def grad_bound(facts: Facts) -> F64:
    """sum_k bound(|dO^ - dO|) |sum_j P~ V^f|, (M,)."""
    sheet = facts.sheet
    size, scale = np.abs(sheet.do_input), sheet.do_scale[:, None]
    error = np.maximum(size * E4M3_RELATIVE, scale * E4M3_ABSOLUTE)
    error = error + size * path(CAST_ROUNDINGS + 1)
    error = np.minimum(error, size * (1 + path(2 * CAST_ROUNDINGS + 2)))  # cast-shrinks
    # A subnormal scale misses amax / 448 by any factor: all that is known is |code| <= 448.
    error = np.where(scale < FP32_SMALLEST_NORMAL, size + E4M3_MAX * scale, error)
    keys = sheet.p.shape[1]
    o = np.abs(facts.forward_p @ sheet.v_forward) + (keys + 1) * OUTWARD * facts.forward_o
    return total(error * o)


def vmis_bound(facts: Facts) -> F64:
    """Nothing: both passes read one V^."""
    return np.zeros(facts.sheet.rows)


def accdp_bound(facts: Facts) -> F64:
    """sum_j P bound(|dP - dP*|), (M,)."""
    return total(facts.sheet.p * _DP[facts.contract.operand_form](facts))


def _dp_dequantised(facts: Facts) -> F64:
    sheet, channels = facts.sheet, facts.sheet.v.shape[1]
    relative = compound(path(ROUNDED_OPERANDS), channels * U)
    factors = largest(np.abs(sheet.do))[:, None] + largest(np.abs(sheet.v))[None, :]
    return np.asarray(relative * facts.products + ETA * (channels + 1) * (2 + factors))


def _dp_codes(facts: Facts) -> F64:
    sheet, channels = facts.sheet, facts.sheet.v.shape[1]
    error = chain_error(
        np.abs(sheet.do),
        np.abs(sheet.v),
        x_floor=sheet.do_scale * E4M3_SMALLEST_NORMAL,
        y_floor=sheet.v_scale * E4M3_SMALLEST_NORMAL,
    )
    under = channels * E4M3_MAX**2 * ETA
    return np.asarray(error + path(1) * (facts.products + error) + under)


_ACC = {"dequantised": _acc_dequantised, "codes": _acc_codes}
_DP = {"dequantised": _dp_dequantised, "codes": _dp_codes}
