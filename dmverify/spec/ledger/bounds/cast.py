"""cast: what rounding dS to its format may change in a row's sum; the numbers are E4M3's.

    nearest    sum_j max(|dS| / 17, s 2^-10) + U |dS|, or s 2^e / 16 + U |dS| for the code q of
               [2^e, 2^(e+1)) where that is less, or |dS| where that is least: the argument is
               dS / s, rounded once, and no cast moves it by more than itself (cast-shrinks)
    zero-sum   along a chain the error of one element is added to the next, so that only the last
               error of each chain is left: |c| <= max(2^e / 16, 2^-10), 2^e the power of two that
               its last code q is not below, whatever t was (e4m3-half-unit); where t saturated,
               |c| <= 16 + 16 * 2^-15 after 16 keys (carry-unclamped); and |c| <= |t|, so that no
               carry exceeds the sizes of its chain (carry-shrinks); besides U |t| for each
               addition, |t| <= 17/16 |q| + 2^-10 and at most the sizes of its chain, and 4 U |dS|
               for the code's argument
s is the tile's scale: amax / 448 of the tile, its power of two (an upper bound of it), or 1 / f
where codes are f times dS. A scale below fp32's normal range misses amax / 448 by any factor, where
|dO| |V| + |delta| exceeds 2^120 the power of two stands still, and a static scale knows no amax:
codes may then saturate, and the sizes are all that is known. E5M2 has 1/9, 2^-17, 1/8 and 57,344
for 1/17, 2^-10, 1/16 and 448 (``rounding``).

Source: theory of the zero-sum cast of this project; half-ulps of E4M3. Not covered: column sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dmverify.spec.attention.choices import choices_of
from dmverify.spec.case import F64
from dmverify.spec.formats import E4M3
from dmverify.spec.ledger.bounds.constants import (
    CARRY_GROWTH,
    CAST_ROUNDINGS,
    CHAIN_LANES,
    CHAIN_PARITIES,
    CHAIN_STEPS,
    E4M3_ABSOLUTE,
    E4M3_OF_CODE,
    FP32_SMALLEST_NORMAL,
    UNDERFLOW_ERROR,
    U,
)
from dmverify.spec.ledger.bounds.correction import gradient_fits, gradient_power
from dmverify.spec.ledger.bounds.magnitudes import Magnitudes, path, total
from dmverify.spec.ledger.bounds.rounding import Rounding, rounding_of
from dmverify.spec.lemmas import rests_on
from dmverify.spec.scaling.rules import fitting_exponent, get_rule

ROUNDING = rounding_of(E4M3)  # what carries are derived for


def cast_bound(sizes: Magnitudes) -> F64:
    """|sum_j (dS^ - dS)|, (M,)."""
    scale = _spread(sizes, _SCALES[sizes.schedule.kind](sizes))
    return _CASTS[sizes.ds_cast](sizes, scale)


@rests_on("cast-shrinks")
def _nearest(sizes: Magnitudes, scale: F64) -> F64:
    size, after = np.abs(sizes.block.ds), np.abs(sizes.block.ds_cast)
    own = sizes.roundings["ds"]
    error = np.maximum(size * own.relative, scale * own.absolute)
    error = np.minimum(error, half_unit(after, scale, own)) + U * size
    return total(np.where(_unsaturated(sizes, scale), np.minimum(error, size), size))


def _zero_sum(sizes: Magnitudes, scale: F64) -> F64:
    seen, size = sizes.block.seen, np.abs(sizes.block.ds)
    after = np.abs(sizes.block.ds_cast)
    chain = _chain_size(sizes, scale)
    known = _in_chain(sizes, (~_unsaturated(sizes, scale)).astype(np.float64)) == 0
    end = np.where(known, np.minimum(half_unit(after, scale), chain), chain)
    ends = np.where(_last_of_chain(sizes), end, 0.0)
    argument = after + np.maximum(after * E4M3_OF_CODE, scale * E4M3_ABSOLUTE)
    argument = np.where(known, np.minimum(argument, chain), chain)
    roundings = U * argument + path(CAST_ROUNDINGS + 1) * size
    return total(ends + np.where(seen, roundings, 0.0))


def cast_cap(sizes: Magnitudes) -> F64:
    """sum_j |dS|, which the nearest cast never passes, as its term is rounded; (M,)."""
    if sizes.ds_cast != "nearest":
        return np.full(sizes.block.rows, np.inf)
    return sizes.ds_size


def _unsaturated(sizes: Magnitudes, scale: F64) -> npt.NDArray[np.bool_]:
    """Where a code's argument is surely at most 448 and a bit, (M, N).

    The scale of a tile with a NaN, in a row that is not defined, says nothing of its other rows.
    """
    normal = scale >= FP32_SMALLEST_NORMAL
    small = np.abs(sizes.block.ds) <= scale * sizes.roundings["ds"].scaled * (1 + 2 * U)
    if not sizes.windowed:
        return np.asarray(normal & small)
    return np.asarray(normal & small & _spread(sizes, gradient_fits(sizes)))


@rests_on("e4m3-half-unit", "carry-unclamped")
def half_unit(after: F64, scale: F64, own: Rounding = ROUNDING) -> F64:
    """What a cast, or a chain's last carry, is within, given its code times its scale, (M, N)."""
    code = np.divide(after, scale, out=np.zeros_like(after), where=scale > 0)
    power = np.where(code > 0, np.ldexp(1.0, np.frexp(code)[1] - 1), 0.0)
    most = np.maximum(power * own.half_unit, own.absolute)
    return np.asarray(scale * most * (1 + CARRY_GROWTH))


@rests_on("carry-shrinks")
def _chain_size(sizes: Magnitudes, scale: F64) -> F64:
    """Sum of a chain's arguments and their roundings, at each of its keys, (M, N)."""
    size = (np.abs(sizes.block.ds) + UNDERFLOW_ERROR * scale) * sizes.block.seen
    return _in_chain(sizes, size) * (1 + path(CHAIN_STEPS * CHAIN_PARITIES + CAST_ROUNDINGS))


def _in_chain(sizes: Magnitudes, x: F64) -> F64:
    """Sum over each chain, at each of its keys, (M, N)."""
    chains = _chained(sizes, x)
    whole = np.broadcast_to(chains.sum(axis=2, keepdims=True), chains.shape)
    return _unchained(sizes, whole)


def _last_of_chain(sizes: Magnitudes) -> F64:
    """True at the last seen key of each chain, (M, N)."""
    order = _chained(sizes, sizes.block.seen)
    later = np.cumsum(order[:, :, ::-1], axis=2)[:, :, ::-1]
    return _unchained(sizes, order & (later == 1))


def _chained(sizes: Magnitudes, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(M, N) by tile, place in the chain, chain: key 8 J + 2 t + b is in chain t, at J, b."""
    padded = np.pad(x, ((0, 0), (0, -x.shape[1] % sizes.schedule.tile)))
    split = padded.reshape(len(x), -1, CHAIN_STEPS, CHAIN_LANES, CHAIN_PARITIES)
    turned = split.swapaxes(-1, -2)
    return np.asarray(turned.reshape(len(x), -1, CHAIN_STEPS * CHAIN_PARITIES, CHAIN_LANES))


def _unchained(sizes: Magnitudes, chains: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Back to (M, N)."""
    split = chains.reshape(len(chains), -1, CHAIN_STEPS, CHAIN_PARITIES, CHAIN_LANES)
    keys = split.swapaxes(-1, -2).reshape(len(chains), -1)
    return np.asarray(keys[:, : sizes.block.seen.shape[1]])


def _amax_scale(sizes: Magnitudes) -> F64:
    """amax / 448 in fp32 per tile, 1 where it is 0, or 1 / f; one number a row and tile, (M, G)."""
    top = sizes.block.ds_top.astype(np.float32)
    if sizes.ds_factor:  # a power of two
        return np.full(top.shape, 1 / sizes.ds_factor)
    scales = get_rule("amax").scales(top, choices_of(sizes.contract).ds_format)
    return np.asarray(scales, np.float64)


def _power_scale(sizes: Magnitudes) -> F64:
    """Upper bound of 2^-kP / u per tile, (M, G)."""
    top = sizes.block.p_top.astype(np.float32)
    unit = np.exp2(-fitting_exponent(top).astype(np.float64))
    return np.asarray(unit * gradient_power(sizes))


def _spread(sizes: Magnitudes, per_tile: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(M, G) to (M, N)."""
    keys = sizes.block.ds.shape[1]
    return np.repeat(per_tile, sizes.schedule.tile, axis=1)[:, :keys]


_CASTS = {"nearest": _nearest, "zero-sum": _zero_sum}
_SCALES = {"rows": _amax_scale, "windows": _power_scale}
