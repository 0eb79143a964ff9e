"""How far a chain of FP8 wgmma instructions strays from the exact dot, in natural order.

One instruction gives D = (1 - d) (sum_i t(p_i) + t(C)) with 0 <= d < 2^-13 and t the truncation
toward zero to a multiple of q = 2^(E - 13), E the largest exponent among the nonzero p_i and C. So
    |D - sum p - C| <= sum over p_i < 2^(E-6) of min(|p_i|, q) + min(|C|, q) + 2^-13 S,
S the sum of magnitudes so far: truncation never raises a magnitude, hence |C| <= S, and a product
has 6 fraction bits and a significand below 4, so that |p_i| >= 2^(E-6) has no bit below q. Chained
instructions add their errors. A code below 2^-6 keeps the exponent -6, so 2^e <= max(|code|, 2^-6):
the ``floor`` of each operand.

Source: the model measured bit for bit on an H200. Not covered: other orders (a partial sum of
another order may raise E).
"""

from __future__ import annotations

import numpy as np

from dmverify.spec.case import F64
from dmverify.spec.ledger.bounds.constants import ACC_TRUNCATION, K32, SURELY_EXACT
from dmverify.spec.ledger.row_block import ELEMENTS


def chain_error(x: F64, y: F64, *, x_floor: F64, y_floor: F64) -> F64:
    """Bound of |D - sum_k x_ik y_jk| for a chain from 0 over ascending k.

    Args:
        x: Magnitudes (M, K), code times scale, one scale a row.
        y: Magnitudes (N, K).
        x_floor: 2^-6 times the scale, (M,).
        y_floor: The same of y, (N,).

    Returns:
        (M, N), in the units of x times y; evaluated in float64 without outward rounding.
    """
    if not x.size or not y.size:
        return np.zeros((len(x), len(y)))
    missing = -x.shape[1] % K32
    x, y = (np.pad(z, ((0, 0), (0, missing))) for z in (x, y))
    tall_x, tall_y = _tall(x, x_floor), _tall(y, y_floor)
    rows = max(ELEMENTS // (len(y) * K32), 1)
    blocks = [slice(i, i + rows) for i in range(0, len(x), rows)]
    return np.concatenate([_block(x[b], tall_x[b], y, tall_y) for b in blocks])


def _tall(x: F64, floor: F64) -> F64:
    """Upper bound of 2^e of each operand, 0 where it is 0."""
    return np.where(x > 0, np.maximum(x, floor[:, None]), 0.0)


def _block(x: F64, tall_x: F64, y: F64, tall_y: F64) -> F64:
    error, total = np.zeros((len(x), len(y))), np.zeros((len(x), len(y)))
    for k in range(0, x.shape[1], K32):
        step = slice(k, k + K32)
        products = x[:, None, step] * y[None, :, step]
        top = (tall_x[:, None, step] * tall_y[None, :, step]).max(axis=2)
        top = np.maximum(top, total)
        quantum = ACC_TRUNCATION * top
        small = products < SURELY_EXACT * top[:, :, None]
        cut = np.where(small, np.minimum(products, quantum[:, :, None]), 0.0).sum(axis=2)
        error += cut + np.minimum(total, quantum)
        total += products.sum(axis=2)
        error += ACC_TRUNCATION * total
    return error
