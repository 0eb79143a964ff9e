"""cast: what rounding dS to E4M3 may change in a row's sum.

    nearest    sum_j max(|dS| / 17, s 2^-10) + 4 U |dS|
    zero-sum   along a chain the error of one element is added to the next, so that only the last
               error of each chain is left: |c| <= max(2^e / 16, 2^-10), 2^e the power of two that
               its last code q is not below, whatever t was (e4m3-half-unit); where t saturated,
               |c| <= 16 + 16 * 2^-15 after 16 keys (carry-unclamped); besides U |t| for each
               addition, |t| <= 17/16 |q| + 2^-10, and 4 U |dS| for the code's argument
s is the tile's scale: amax / 448 of the tile, or its power of two (an upper bound of it). A scale
below fp32's normal range misses amax / 448 by any factor; then |dS^| <= 448 s is all that is known
of that tile.

Source: theory of the zero-sum cast of this project; half-ulps of E4M3. Not covered: column sums.
"""

from __future__ import annotations

import numpy as np

from dmverify.spec.case import F64
from dmverify.spec.ledger.bounds.constants import (
    CARRY_GROWTH,
    CAST_ROUNDINGS,
    CHAIN_LANES,
    CHAIN_PARITIES,
    CHAIN_STEPS,
    E4M3_ABSOLUTE,
    E4M3_HALF_UNIT,
    E4M3_MAX,
    E4M3_OF_CODE,
    E4M3_RELATIVE,
    FP32_SMALLEST_NORMAL,
    U,
)
from dmverify.spec.ledger.bounds.correction import gradient_power
from dmverify.spec.ledger.bounds.facts import Facts, path, total
from dmverify.spec.lemmas import rests_on
from dmverify.spec.scaling.rules import fitting_exponent, get_rule


def cast_bound(facts: Facts) -> F64:
    """|sum_j (dS^ - dS)|, (M,)."""
    scale = _spread(facts, _SCALES[facts.contract.ds_scale](facts))
    size = np.abs(facts.sheet.ds)
    normal = _CASTS[facts.contract.ds_cast](facts, scale)
    lost = (size + E4M3_MAX * scale) * facts.sheet.seen
    return total(np.where(scale < FP32_SMALLEST_NORMAL, np.maximum(normal, lost), normal))


def _nearest(facts: Facts, scale: F64) -> F64:
    size = np.abs(facts.sheet.ds)
    error = np.maximum(size * E4M3_RELATIVE, scale * E4M3_ABSOLUTE * facts.sheet.seen)
    return np.asarray(error + path(CAST_ROUNDINGS + 1) * size)


def _zero_sum(facts: Facts, scale: F64) -> F64:
    seen, size = facts.sheet.seen, np.abs(facts.sheet.ds)
    after = np.abs(facts.sheet.ds_cast)
    left = np.maximum(after * E4M3_OF_CODE, scale * E4M3_ABSOLUTE)
    ends = np.where(_last_of_chain(facts), half_unit(after, scale), 0.0)
    roundings = U * (after + left) + path(CAST_ROUNDINGS + 1) * size
    return np.asarray(ends + np.where(seen, roundings, 0.0))


@rests_on("e4m3-half-unit", "carry-unclamped")
def half_unit(after: F64, scale: F64) -> F64:
    """What the last carry of a chain is within, given its last code times its scale, (M, N)."""
    code = np.divide(after, scale, out=np.zeros_like(after), where=scale > 0)
    power = np.where(code > 0, np.ldexp(1.0, np.frexp(code)[1] - 1), 0.0)
    most = np.maximum(power * E4M3_HALF_UNIT, E4M3_ABSOLUTE)
    return np.asarray(scale * most * (1 + CARRY_GROWTH))


def _last_of_chain(facts: Facts) -> F64:
    """True at the last seen key of each chain, (M, N).

    Key 8 J + 2 t + b of a tile is in chain t, in the order of J, b.
    """
    tile = facts.contract.tile
    seen = facts.sheet.seen
    padded = np.pad(seen, ((0, 0), (0, -seen.shape[1] % tile)))
    chains = padded.reshape(len(seen), -1, CHAIN_STEPS, CHAIN_LANES, CHAIN_PARITIES)
    chains = chains.swapaxes(-1, -2)
    order = chains.reshape(len(seen), -1, CHAIN_STEPS * CHAIN_PARITIES, CHAIN_LANES)
    later = np.cumsum(order[:, :, ::-1], axis=2)[:, :, ::-1]
    last = (order & (later == 1)).reshape(chains.shape).swapaxes(-1, -2)
    return np.asarray(last.reshape(padded.shape)[:, : seen.shape[1]])


def _amax_scale(facts: Facts) -> F64:
    """amax / 448 in fp32 per tile, 1 where it is 0; one number a row and tile, (M, G)."""
    scales = get_rule("amax").scales(facts.sheet.ds_top.astype(np.float32))
    return np.asarray(scales, np.float64)


def _power_scale(facts: Facts) -> F64:
    """Upper bound of 2^-kP / u per tile, (M, G)."""
    top = facts.sheet.p_top.astype(np.float32)
    unit = np.exp2(-fitting_exponent(top).astype(np.float64))
    return np.asarray(unit * gradient_power(facts)[:, None])


def _spread(facts: Facts, per_tile: F64) -> F64:
    keys = facts.sheet.ds.shape[1]
    return np.repeat(per_tile, facts.contract.tile, axis=1)[:, :keys]


_CASTS = {"nearest": _nearest, "zero-sum": _zero_sum}
_SCALES = {"tile-amax": _amax_scale, "tile-exponent": _power_scale}
