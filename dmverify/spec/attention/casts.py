"""Step 10: P and dS are cast in square tiles of queries x keys.

    by amax       s = amax / 448 of the tile (1 if 0);  code = round(x / s)
    static        a factor f that the contract states;  code = round(f x), which stands for code / f
    by exponent   the tile's powers of two are chosen before: ``gradient_level``
    nearest       every element rounds by itself
    zero-sum      along each chain of 16 keys of a row and tile (keys 8 J + 2 t + b, in the order of
                  J, then b, one chain for each t) the error of an element is added to the next one
                  before it rounds: t_n = x_n + c_(n-1), q_n = round(t_n) saturating,
                  c_n = t_n - q_n. Masked keys give 0 and pass c on.

By exponent, kP is the largest integer <= 100 with max(P) 2^kP <= 448 in the tile, and u = 2^-n, n
the least integer with |dO^_i| |V^_j| + |shift| + |delta| <= 2^n. Then |P 2^kP (dP - delta) u| <=
448 holds without a second maximum: Cauchy-Schwarz bounds |dP - delta| u by 1, and the tensor core's
truncation never increases a magnitude. Powers of two cancel exactly. In E5M2 57,344 stands for 448.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType

from dmverify.spec.attention.choices import Choices
from dmverify.spec.attention.num import (
    Flags,
    Num,
    broadcast,
    carry,
    cast,
    ceil_log2,
    concatenate,
    fma,
    integer_difference,
    largest,
    max_shift_to_448,
    pow2,
    scale_down,
    sqrt,
    where,
)
from dmverify.spec.attention.operands import BlockScaled, Head
from dmverify.spec.attention.state import Cast, Row
from dmverify.spec.attention.sums import ByWindow, Order, select_static
from dmverify.spec.attention.unspecified_order import widen_unit
from dmverify.spec.constants import constant as proved
from dmverify.spec.formats import E4M3, FP32, Element, FloatFormat
from dmverify.spec.lemmas import rests_on
from dmverify.spec.scaling.rules import E8M0_BIAS

NORM_SLACK = 1.0 + float(proved("NORM_STEP"))  # more than a norm of 2^12 channels rounds


def amax_scale(amax: Num, fmt: Element = E4M3) -> Num:
    """The article's rule: amax / 448, and 1 for an all-zero group; of a NaN, NaN."""
    unscaled = where(amax.of(FP32.max_finite) > amax, 1.0, amax)  # a NaN is above nothing
    return where(amax > 0.0, amax / fmt.max_finite, unscaled)


def e8m0_scale(amax: Num) -> Num:
    """The rule amax-e8m0: the least power of two under which nothing saturates, 1 for zeros."""
    return pow2(-max_shift_to_448(amax, limit=E8M0_BIAS))


SCALES: MappingProxyType[str, Callable[[Num], Num]] = MappingProxyType({"amax-e8m0": e8m0_scale})
"""From the amax of a block inside the steps to its scale, by the operands' rule."""


def scale_of(choices: Choices, amax: Num) -> Num:
    """The scale of a group or block whose largest magnitude is given: amax / 448 unless said."""
    return SCALES.get(choices.block_rule, amax_scale)(amax)


def in_blocks(choices: Choices, x: Num, block: int, *, site: str) -> BlockScaled:
    """Codes of (M, N) in blocks of each row, (M, G, block), and their scales, (M, G, 1)."""
    groups = in_tiles(x, block)
    scale = scale_of(choices, largest(abs(groups), 2))
    codes = cast(scale_down(groups, scale, E4M3), E4M3, site=site, saturate=choices.saturate)
    return BlockScaled(codes, scale)


def both_ways(choices: Choices, x: Num, block: int, *, site: str) -> BlockScaled:
    """(M, N) in blocks of each row, and once more in blocks down the columns."""
    down = in_blocks(choices, x.T, block, site=site)
    codes, scale = (
        y.reshape(len(y), -1).T for y in (down.codes, broadcast(down.scale, down.codes.shape))
    )
    return replace(in_blocks(choices, x, block, site=site), turned=BlockScaled(codes, scale))


def by_amax(x: Num, tile: int, fmt: FloatFormat) -> tuple[Num, Num]:
    """x (M, G, tile) over the scale of its tile, and that scale, (M, G, 1)."""
    scale = amax_scale(tile_max(abs(x), tile), fmt)
    return scale_down(x, scale, fmt), scale


def by_factor(x: Num, factor: int) -> tuple[Num, Num]:
    """x (M, G, tile) times a factor, and what its codes are multiplied with, (1, 1, 1)."""
    return x * float(factor), widen_unit(x.of(1.0 / factor), factor)


@rests_on("ds-code-bound", "rn-equivariance")
def by_exponent(
    choices: Choices, order: ByWindow, head: Head, row: Row, taken: tuple[Num, Num]
) -> Cast:
    """Steps 9 and 10 with windows; ``taken`` off dP are the shift and delta."""
    shift, delta = taken
    tile = row.p.shape[2]
    row_max = (row.p_scale * largest(row.p, 2)[:, :, 0])[:, :, None]
    k_p = max_shift_to_448(tile_max(row_max, tile))
    n = gradient_level(order, head, shift, delta, tile)
    p = row.p * (row.p_scale[:, :, None] * pow2(k_p))
    x = p * centred(choices, row, shift, delta, pow2(-n))
    p, x = (select_static(order.visited, y, y.of(0.0)) for y in (p, x))
    p_unit, ds_unit = pow2(-k_p), pow2(integer_difference(n, k_p))
    p_codes = cast(p, E4M3, site="p", saturate=True)
    ds_codes = cast_ds(choices, x, head.seen.reshape(x.shape))
    return Cast(BlockScaled(p_codes, p_unit), BlockScaled(ds_codes, ds_unit), p, p_unit, x, ds_unit)


def centred(choices: Choices, row: Row, shift: Num, delta: Num, u: Num) -> Num:
    """(dP - shift - delta) u: one fma, or with a shift a product and two subtractions."""
    scale, taken = row.scale * u, delta[:, :, None] * u
    if not choices.mode.shifts:
        return fma(row.acc, scale, -taken)
    return (row.acc * scale - shift[:, :, None] * u) - taken


def cast_ds(choices: Choices, x: Num, seen: Flags) -> Num:
    """dS (M, G, tile) in units of codes, as codes."""
    if choices.ds_cast == "nearest":
        return cast(x, choices.ds_format, site="ds", saturate=choices.saturate)
    return zero_sum(x, seen)


@rests_on("carry-exact", "carry-clamped", "carry-telescopes")
def zero_sum(x: Num, seen: Flags) -> Num:
    """The zero-sum cast of (M, G, 64) code units: E4M3 values, errors carried along each chain."""
    chained = x.reshape(x.shape[0], x.shape[1], 8, 4, 2)
    mask = seen.reshape(chained.shape)
    zero = x.of(0.0)
    c, parts = zero, []
    for step in range(8):
        for parity in range(2):
            t = chained[:, :, step, :, parity] + c
            live = mask[:, :, step, :, parity]
            q = where(live, cast(t, E4M3, site="ds", saturate=True), zero)
            c = where(live, carry(t, q), c)
            parts.append(q[:, :, None])
    codes = concatenate(parts, 2)  # (M, G, 16, 4): (J, b), t
    ordered = codes.reshape(*codes.shape[:2], 8, 2, 4).swapaxes(3, 4)
    return ordered.reshape(x.shape)


@rests_on("cauchy-schwarz")
def gradient_level(order: Order, head: Head, shift: Num, delta: Num, tile: int) -> Num:
    """n of the tile's u = 2^-n, integers (M, W, 1)."""
    do_norm, v_norm = (_block_norm(order, x, tile) for x in (head.do, head.v))
    level = broadcast(abs(shift) + abs(delta), head.do.scale.shape)
    bound = do_norm * v_norm.T + _block_max(level, tile)  # (M / tile, W)
    return tile_rows(ceil_log2(bound), side(len(head.do.codes), tile))


def _block_norm(order: Order, x: BlockScaled, tile: int) -> Num:
    """Upper bound of the rows' Euclidean norms, per block of one tile: (N / tile, 1)."""
    norm = sqrt(order.over_channels(x.codes, x.codes))
    return _block_max(norm * (x.scale * NORM_SLACK), tile)


def _block_max(x: Num, tile: int) -> Num:
    """Maximum of (N, 1) over blocks of one tile: (N / tile, 1)."""
    return largest(x.reshape(-1, side(len(x), tile)), 1)


def tile_max(x: Num, tile: int) -> Num:
    """Maximum over each tile of (M, G, l), repeated for the tile's rows: (M, G, 1)."""
    over_keys = largest(x, 2)
    rows, groups, _ = over_keys.shape
    edge = side(rows, tile)
    return tile_rows(largest(over_keys.reshape(-1, edge, groups), 1)[:, 0], edge)


def tile_rows(x: Num, edge: int) -> Num:
    """(M / edge, G), one value a tile, repeated for the tile's rows: (M, G, 1)."""
    tiles, groups = x.shape
    return broadcast(x[:, None], (tiles, edge, groups)).reshape(-1, groups, 1)


def in_tiles(x: Num, tile: int) -> Num:
    """Scores (M, N) by tiles of keys, (M, G, tile)."""
    return x.reshape(len(x), -1, side(x.shape[1], tile))


def side(length: int, tile: int) -> int:
    """Side of a tile along a matrix: one that is shorter than a tile is a tile."""
    return min(tile, length)
