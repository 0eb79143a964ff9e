"""Steps 9 and 10: dS and its cast, and P's, in square tiles of queries x keys.

    tile-amax       dS = P ((dP - shift) - delta);  s = amax(|dS|) / 448 per tile (1 if 0);
                    code = round(dS / s); P likewise
    tile-exponent   kP: the largest integer <= 100 with max(P) 2^kP <= 448 in the tile
                    u = 2^-n, n the least integer with |dO^_i| |V^_j| + |shift| + |delta| <= 2^n
                    p = e * (rcp(l) 2^kP)                    P code = round(p)
                    x = p * fma(dP raw, factor u, -(delta u))  dS code = round(x)
                    with a shift, dP is rounded first: x = p * ((dP u - shift u) - delta u)

In the second form |x| <= 448 holds without a second maximum: |p| <= 448, and Cauchy-Schwarz
bounds |dP - delta| u by 1 (the tensor core's truncation never increases a magnitude). Powers of
two cancel exactly, so P = p 2^-kP and dS = x 2^-kP / u.

zero-sum cast: along each chain of 16 keys of a row and tile (keys 8 J + 2 t + b, in the order of
J, then b, one chain for each t) the error of an element is added to the next one before it
rounds: t_n = x_n + c_(n-1), q_n = round(t_n) saturating, c_n = t_n - q_n. Masked keys give 0 and
pass c on.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.delta import Row
from dmverify.spec.attention.forward import Forward, amax_scale
from dmverify.spec.attention.freedom import flushed, gradient
from dmverify.spec.attention.operands import Head, Operand
from dmverify.spec.attention.products import Coded, constant, keep, one, tile_of
from dmverify.spec.attention.sums import channel_dot
from dmverify.spec.constants import constant as proved
from dmverify.spec.contracts import Contract, Online
from dmverify.spec.formats import BF16, E4M3
from dmverify.spec.lemmas import rests_on
from dmverify.spec.namespace import Array

P_EXPONENT = 8  # P codes of a per-tensor backward are 2^8 P
NORM_SLACK = 1.0 + float(proved("NORM_STEP"))  # more than a norm of 2^12 channels rounds


@dataclass(frozen=True)
class Cast:
    """P and dS around the cast.

    Attributes:
        p: P in tiles, codes (M, G, tile), scale (M, G, 1).
        ds: dS in tiles.
        p_before: P as the dS step saw it, in units of ``p_unit``, (M, G, tile).
        p_unit: (M, G, 1).
        ds_before: dS before the cast, in units of ``ds_unit``.
        ds_unit: (M, G, 1).
    """

    p: Coded
    ds: Coded
    p_before: Array
    p_unit: Array
    ds_before: Array
    ds_unit: Array


def cast_tiles(
    a: Arithmetic,
    contract: Contract,
    head: Head,
    fwd: Forward,
    row: Row,
    shift: Array,
    delta: Array,
) -> Cast:
    """Steps 9 and 10 of the contract's form."""
    args = (a, contract, head, fwd, row, shift, delta)
    return FORMS[_form(contract)](*args)


def _form(contract: Contract) -> str:
    schedule = contract.schedule
    return schedule.ds if isinstance(schedule, Online) else schedule.kind


def _gradient_of_scores(
    a: Arithmetic, row: Row, shift: Array, delta: Array
) -> tuple[Array, Array, Array]:
    """P, dP and dS = P (dP - shift - delta), before any cast."""
    p = a.mul(row.weight, row.scale[:, :, None])
    dp = a.mul(row.raw, row.factor)
    ds = a.mul(p, a.sub(a.sub(dp, shift[:, :, None]), delta[:, :, None]))
    return p, dp, ds


def _by_amax(
    a: Arithmetic,
    contract: Contract,
    head: Head,
    fwd: Forward,
    row: Row,
    shift: Array,
    delta: Array,
) -> Cast:
    p, _, ds = _gradient_of_scores(a, row, shift, delta)
    p, ds = (_in_tiles(contract, x) for x in (p, ds))
    seen = fwd.scores.seen.reshape(ds.shape)
    p_scale, ds_scale = (amax_scale(a, _tile_max(a, contract, a.absolute(x))) for x in (p, ds))
    p_codes = a.cast(a.scale_down(p, p_scale), E4M3, site="p", saturate=contract.saturate)
    ds_codes = _cast_ds(a, contract, a.scale_down(ds, ds_scale), seen)
    return Cast(Coded(p_codes, p_scale), Coded(ds_codes, ds_scale), p, one(a), ds, one(a))


def _without_tiles(
    a: Arithmetic,
    contract: Contract,
    head: Head,
    fwd: Forward,
    row: Row,
    shift: Array,
    delta: Array,
) -> Cast:
    p, dp, ds = _gradient_of_scores(a, row, shift, delta)
    sizes = (a.absolute(a.sub(dp, shift[:, :, None])), a.absolute(delta[:, :, None]))
    ds = gradient(a, contract, ds, p, sizes)
    p, ds = (_in_tiles(contract, x) for x in (p, ds))
    p_coded = _encoded(a, contract, p, "p", (P_EXPONENT, 1.0))
    ds_coded = _encoded(a, contract, ds, "ds", (head.exponents.get("ds", 0), head.scale))
    return Cast(p_coded, ds_coded, p, one(a), ds, one(a))


def _encoded(
    a: Arithmetic, contract: Contract, x: Array, site: str, units: tuple[int, float]
) -> Coded:
    """x, or x in BF16, or the E4M3 codes of x times a factor and a power of two."""
    rows, tiles, _ = x.shape
    unit = a.broadcast(one(a), (rows, tiles, 1))
    if _form(contract) == "unrounded":
        return Coded(x, unit)
    if _form(contract) == "bf16" and site == "ds" and a.encloses:
        return Coded(x, unit)  # rounded by ``gradient``, whose grid is open
    if _form(contract) == "bf16":
        return Coded(flushed(a, contract, a.cast(x, BF16, site=site, saturate=False)), unit)
    exponent, factor = units
    up = a.mul(a.mul(x, constant(a, factor)), constant(a, 2.0**exponent))
    codes = a.cast(up, E4M3, site=site, saturate=True)
    down = a.div(constant(a, 2.0**-exponent), constant(a, factor))
    return Coded(codes, a.broadcast(down, (rows, tiles, 1)))


@rests_on("ds-code-bound", "rn-equivariance")
def _by_exponent(
    a: Arithmetic,
    contract: Contract,
    head: Head,
    fwd: Forward,
    row: Row,
    shift: Array,
    delta: Array,
) -> Cast:
    row_max = a.mul(row.scale, a.max(row.weight, 2)[:, :, 0])[:, :, None]
    exponent = a.fit(_tile_max(a, contract, row_max))
    level = gradient_binade(a, contract, head, shift, delta)
    shrink = a.pow2(-level)
    p = a.mul(row.weight, a.mul(row.scale[:, :, None], a.pow2(exponent)))
    x = a.mul(p, _centred(a, contract, row, shift, delta, shrink))
    p, x = (keep(a, row.there, y, constant(a, 0.0)) for y in (p, x))
    p_unit = a.pow2(-exponent)
    ds_unit = a.pow2(level - exponent)
    p_codes = a.cast(p, E4M3, site="p", saturate=True)
    ds_codes = _cast_ds(a, contract, x, fwd.scores.seen)
    return Cast(Coded(p_codes, p_unit), Coded(ds_codes, ds_unit), p, p_unit, x, ds_unit)


FORMS = MappingProxyType(
    {
        "rows": _by_amax,
        "windows": _by_exponent,
        "bf16": _without_tiles,
        "call-exponent": _without_tiles,
        "unrounded": _without_tiles,
    }
)


def _centred(
    a: Arithmetic, contract: Contract, row: Row, shift: Array, delta: Array, u: Array
) -> Array:
    """(dP - shift - delta) u: one fma, or with a shift a product and two subtractions."""
    factor = a.mul(row.factor, u)
    if contract.delta != "shifted":
        return a.fma(row.raw, factor, a.negate(a.mul(delta[:, :, None], u)))
    moved = a.sub(a.mul(row.raw, factor), a.mul(shift[:, :, None], u))
    return a.sub(moved, a.mul(delta[:, :, None], u))


@rests_on("cauchy-schwarz")
def gradient_binade(
    a: Arithmetic, contract: Contract, head: Head, shift: Array, delta: Array
) -> Array:
    """n of the tile's u = 2^-n, as integers (M, W, 1)."""
    do_norm, v_norm = (_block_norm(a, contract, x) for x in (head.do, head.v))
    level = a.add(a.absolute(shift), a.absolute(delta))
    top = _per_block(a, contract, a.broadcast(level, head.do.scale.shape))
    bound = a.add(a.mul(do_norm, v_norm.swapaxes(0, 1)), top)  # (M / tile, W)
    return _tile_rows(a, tile_of(contract, len(head.do.codes)), a.binade(bound))


def _block_norm(a: Arithmetic, contract: Contract, x: Operand) -> Array:
    """Upper bound of the rows' Euclidean norms, per block of one tile: (N / tile, 1)."""
    norm = a.sqrt(channel_dot(a, contract, x.codes, x.codes))
    slack = a.mul(x.scale, constant(a, NORM_SLACK)[0])
    return _per_block(a, contract, a.mul(norm, slack))


def _per_block(a: Arithmetic, contract: Contract, x: Array) -> Array:
    """Maximum of (N, 1) over blocks of one tile: (N / tile, 1)."""
    return a.max(x.reshape(-1, tile_of(contract, len(x))), 1)


def _tile_max(a: Arithmetic, contract: Contract, x: Array) -> Array:
    """Maximum over each tile of (M, G, l), repeated for the tile's rows: (M, G, 1)."""
    over_keys = a.max(x, 2)
    rows, groups, _ = over_keys.shape
    side = tile_of(contract, rows)
    return _tile_rows(a, side, a.max(over_keys.reshape(-1, side, groups), 1)[:, 0])


def _tile_rows(a: Arithmetic, side: int, x: Array) -> Array:
    """(M / side, G), one value a tile, repeated for the tile's rows: (M, G, 1)."""
    tiles, groups = x.shape
    return a.broadcast(x[:, None], (tiles, side, groups)).reshape(-1, groups, 1)


def _in_tiles(contract: Contract, x: Array) -> Array:
    """Scores (M, W, L) by tiles of keys, (M, G, tile)."""
    rows, windows, width = x.shape
    return x.reshape(rows, -1, tile_of(contract, windows * width))


def _cast_ds(a: Arithmetic, contract: Contract, x: Array, seen: Array) -> Array:
    if contract.ds_cast == "nearest":
        return a.cast(x, E4M3, site="ds", saturate=contract.saturate)
    return zero_sum(a, x, seen)


@rests_on("carry-exact", "carry-clamped", "carry-telescopes")
def zero_sum(a: Arithmetic, x: Array, seen: Array) -> Array:
    """The zero-sum cast of (M, G, 64) code units: E4M3 values, errors carried along each chain."""
    chained = x.reshape(x.shape[0], x.shape[1], 8, 4, 2)
    mask = seen.reshape(chained.shape)
    zero = constant(a, 0.0)
    carry, parts = zero[..., 0], []
    for step in range(8):
        for parity in range(2):
            t = a.add(chained[:, :, step, :, parity], carry)
            live = a.mask(mask[:, :, step, :, parity])
            q = a.select(live, a.cast(t, E4M3, site="ds", saturate=True), zero)
            carry = a.select(live, a.carry(t, q), carry)
            parts.append(q[:, :, None])
    codes = a.concatenate(parts, 2)  # (M, G, 16, 4): (J, b), t
    ordered = codes.reshape(*codes.shape[:2], 8, 2, 4).swapaxes(3, 4)
    return ordered.reshape(x.shape)
