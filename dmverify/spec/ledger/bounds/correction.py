"""match, rec, balance and elem: the delta pass and the dS step.

With S = sum_j P |d|, d = dP - shift, and g the relative error of the contract's dot order (n U in
any order; (1 + U)^k - 1 where k roundings lie on the way):

    match    matched: |A' - delta| <= g S. Where e, not P, is dotted and 1 / l is multiplied at the
             end, P rounds once more than the delta pass knows: g compounds with (1 + U)^4 - 1.
    rec      |sum_j (P d - P' d')| <= U sum_j P' |d'|: P is P' rounded once, dP is dP'
    balance  delta = fl(A^ / B^): |A - delta B| <= g S + (|A| + g S)(h + U) / (1 - h), h < 1 the
             relative error of the sum B^. Shifted: d itself is rounded once, g compounds with U.
             Where e is summed instead of P, U (S + |delta| B) more for P's rounding.
    elem     |dS - P (d - delta)| <= (2 U + U^2) P |d - delta|, two roundings; shifted has a third,
             of d: U (1 + U)^2 P |d| more
and n underflows of products, times 1 / l where that is multiplied at the end (l is above 1/4).
Where d - delta is formed in units of codes (an a-priori dS scale) its own four underflows count
too, in those units and times P. n U and (n - 1) U: Jeannerod and Rump 2013.
dS = fma(P, dP, -fl(P delta)) is not covered by elem and may miss it by any factor: its error scales
with |P delta|.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dmverify.spec.case import F64
from dmverify.spec.exponents import LARGEST_EXPONENT, LARGEST_FIT, LEAST_EXPONENT
from dmverify.spec.ledger.bounds.constants import (
    CENTRED_UNDERFLOWS,
    CHANNEL_FOLDS,
    CHANNEL_LANES,
    E4M3_MAX,
    FP32_SMALLEST_NORMAL,
    GRADIENT_ROUNDINGS,
    NORM_STEP,
    QUOTIENT_UNDERFLOWS,
    RECIPROCAL_MAX,
    RECIPROCAL_ROUNDINGS,
    TWO_U64,
    UNDERFLOW_ERROR,
    U,
)
from dmverify.spec.ledger.bounds.magnitudes import (
    Magnitudes,
    compound,
    dot_error,
    largest,
    once,
    path,
    row_order_error,
    sum_error,
    total,
)
from dmverify.spec.ledger.row_block import tile_max

LARGEST_P_UNIT = 2 / E4M3_MAX  # a tile's P is at most 1, and codes above 224 are made of it
# Four times the least 2^n whose units are all normal: a power of two below those is made as 0.
VANISHING = 2.0 ** (LARGEST_FIT + 2) * FP32_SMALLEST_NORMAL


def match_bound(sizes: Magnitudes) -> F64:
    """|A' - delta|, (M,)."""
    order, top = row_order_error(sizes), largest(sizes.moved)
    under = sizes.keys * UNDERFLOW_ERROR * (1 + order + top)
    if sizes.block.presented:
        size = _presented_size(sizes)
        return compound(dot_error(sizes), path(1)) * size * (1 + U) + under
    extra = path(RECIPROCAL_ROUNDINGS if sizes.windowed else 0)
    if sizes.windowed:  # what underflow takes of e d is multiplied with 1 / l
        grown = 1 + compound(order, extra)
        under = sizes.keys * UNDERFLOW_ERROR * grown * (1 + top + RECIPROCAL_MAX)
    return compound(dot_error(sizes), extra) * sizes.p_moved + under


def rec_bound(sizes: Magnitudes) -> F64:
    """|A - A'|, (M,)."""
    under = UNDERFLOW_ERROR * total(sizes.moved * sizes.block.seen)
    return path(1) * _presented_size(sizes) + under


def balance_bound(sizes: Magnitudes) -> F64:
    """|A - delta B|, (M,)."""
    shifted = sizes.delta_mode.shifts
    size = sizes.p_moved
    g = compound(dot_error(sizes), path(1 if shifted else 0))
    h = sum_error(sizes)
    a = np.abs(sizes.sums.a.to_float())
    kept = np.maximum(1 - h, U)  # h < 1 is a premise
    bound = g * size + (a + g * size) * (h + U) / kept
    if sizes.windowed:
        # numerator and denominator are sums of e: the formula holds for e r, which P rounds
        bound = (bound + path(2) * (size + sizes.delta * total(sizes.block.p))) * (
            1 + path(RECIPROCAL_ROUNDINGS)
        )
    lost = QUOTIENT_UNDERFLOWS + (RECIPROCAL_MAX if sizes.windowed else 0.0)
    return bound + sizes.keys * UNDERFLOW_ERROR * (lost + sizes.delta + largest(sizes.moved))


def elem_bound(sizes: Magnitudes) -> F64:
    """sum_j |dS - P (d - delta)|, (M,)."""
    block = sizes.block
    size = np.abs(block.dp - block.shift[:, None] - block.delta[:, None])
    size = size + TWO_U64 * sizes.moved  # the first of the two float64 subtractions has rounded
    bound = path(2) * total(block.p * size)
    if sizes.delta_mode.shifts:
        bound = bound + U * (1 + path(2)) * sizes.p_moved
    return bound + sizes.keys * UNDERFLOW_ERROR * _unit(sizes) + _centred_underflow(sizes)


def _centred_underflow(sizes: Magnitudes) -> F64:
    """What d - delta loses to underflow where it is formed in units of codes, times P, (M,)."""
    if not sizes.windowed:
        return np.zeros(sizes.block.rows)
    block = sizes.block
    # Beside an emptied row, under the largest power, the factor of dP underflows, too.
    emptied = ~block.by_head(block.defined).all(axis=1).repeat(block.rows // block.heads)
    units = CENTRED_UNDERFLOWS + emptied * (block.v.shape[1] * E4M3_MAX**2)
    return np.asarray(units * UNDERFLOW_ERROR * largest(gradient_power(sizes)) * total(block.p))


def _presented_size(sizes: Magnitudes) -> F64:
    block = sizes.block
    return total(block.p_presented * np.abs(block.dp_presented - block.shift[:, None]))


def _unit(sizes: Magnitudes) -> F64:
    """What a code unit of dS is worth at most: an underflow of the product is in these units.

    A unit that is too small to be normal vanishes, and with it codes of up to 448 of them.
    """
    if not sizes.windowed:
        return np.ones(sizes.block.rows)
    power = gradient_power(sizes)
    worth = np.maximum(LARGEST_P_UNIT * largest(power), 1.0)
    # A unit is 2^(n - kP) with kP <= 100, and n is at most one below what bounds it here.
    vanishes = power.min(axis=1, initial=np.inf) < VANISHING
    return np.asarray(worth + np.where(vanishes, 2 * E4M3_MAX, 0.0))


def gradient_power(sizes: Magnitudes) -> F64:
    """Upper bound of 1 / u = 2^n of each tile, what the dS step divides by, (M, G)."""
    reach = gradient_reach(sizes)
    least = np.ceil(np.log2(np.where(reach > 0, reach, 1.0)))
    return np.asarray(np.exp2(np.clip(least, LEAST_EXPONENT, LARGEST_EXPONENT)))


def gradient_fits(sizes: Magnitudes) -> npt.NDArray[np.bool_]:
    """Whether 2^n, which stops at 2^120, is as large as what it stands for, (M, G)."""
    return np.asarray(gradient_reach(sizes) <= 2.0**LARGEST_EXPONENT)


@once
def gradient_reach(sizes: Magnitudes) -> F64:
    """|dO| |V| + |shift| + |delta| of each tile as the step rounds it, at most, (M, G).

    A row that was emptied had a NaN or an infinity, and its tile's power of two is the largest.
    """
    block, tile = sizes.block, sizes.schedule.tile
    channels = block.v.shape[1] / CHANNEL_LANES + CHANNEL_FOLDS
    raised = (1 + NORM_STEP) ** 2 * (1 + path(channels + GRADIENT_ROUNDINGS))
    do_norm = np.linalg.norm(block.do, axis=1)[:, None]
    level = (np.abs(block.shift) + sizes.delta)[:, None] * (1 + path(2))
    wild = np.where(block.defined, 0.0, np.inf)[:, None]
    norms, level = (
        tile_max(block.by_head(x), tile).reshape(x.shape) for x in (do_norm, level + wild)
    )
    return np.asarray(norms * block.v_norm * raised + level)
