"""Steps 7 to 11: P, dP, delta, dS and its cast, then dQ, dK and dV.

For each query head, and in step 11 for each key head over its query heads:

    7.  P = e / l (or e * rcp(l));  dP = dO^ V^T
    8.  delta (``delta.py``)
    9.  dS = P ((dP - shift) - delta)
    10. P and dS are cast in square tiles (``casts.py``)
    11. dQ = scale * dS^ K^     dK = scale * dS^T Q^     dV = P^T dO^
        with windows: of one tile, ascending; over the query heads of a key head, ascending
        without: one sum over the queries of all heads, in any order
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.casts import Cast, cast_tiles
from dmverify.spec.attention.delta import Row, delta
from dmverify.spec.attention.forward import Forward, reciprocal
from dmverify.spec.attention.freedom import head_sum, rounds_heads
from dmverify.spec.attention.operands import Head, Operand
from dmverify.spec.attention.products import (
    Coded,
    combination,
    constant,
    keep,
    one,
    similarity,
    tile_of,
    visited,
)
from dmverify.spec.attention.softmax import exponentials, shares
from dmverify.spec.contracts import Contract, Windows
from dmverify.spec.namespace import Array


@dataclass(frozen=True)
class Backward:
    """What steps 7 to 10 leave, and dQ."""

    dq: Array
    row: Row
    shift: Array
    delta: Array
    cast: Cast


def backward(a: Arithmetic, contract: Contract, head: Head, fwd: Forward) -> Backward:
    """Steps 7 to 10, and the part of step 11 that stays in the row."""
    row = probabilities(a, contract, head, fwd)
    shift, correction = delta(a, contract, head, fwd, row)
    cast = cast_tiles(a, contract, head, fwd, row, shift, correction)
    dq = _query_gradient(a, contract, head, cast.ds, row.there)
    return Backward(dq, row, shift, correction, cast)


def probabilities(a: Arithmetic, contract: Contract, head: Head, fwd: Forward) -> Row:
    """Step 7: P (with its pending row scale) and dP (with its pending factor)."""
    raw, factor = similarity(a, contract, head.do, head.v)
    there = visited(contract, fwd.scores.seen)
    if contract.delta == "associated":
        p, scale = _forward_probability(a, contract, fwd, raw.shape)
    elif not isinstance(contract.schedule, Windows):
        e = _exponentials(a, contract, fwd)
        p = shares(a, contract, fwd.scores, fwd.reference, e, fwd.l[:, :, None])
        scale = one(a)[0]
    else:
        p, scale = _exponentials(a, contract, fwd), _row_scale(a, fwd)
    return Row(p, scale, raw, factor, there)


def _exponentials(a: Arithmetic, contract: Contract, fwd: Forward) -> Array:
    return exponentials(a, contract, fwd.scores, fwd.reference) if fwd.e is None else fwd.e


def _row_scale(a: Arithmetic, fwd: Forward) -> Array:
    """rcp(l), 0 on dead rows and padding."""
    return a.select(a.mask(fwd.live), reciprocal(a, fwd.l), constant(a, 0.0)[0])


def _forward_probability(
    a: Arithmetic, contract: Contract, fwd: Forward, shape: tuple[int, ...]
) -> tuple[Array, Array]:
    """The rounded P of the forward, normalised: code * (window weight * normaliser)."""
    codes = a.mul(fwd.weight.codes, fwd.weight.scale).reshape(shape)
    if not isinstance(contract.schedule, Windows):
        return a.div(codes, fwd.norm[:, :, None]), one(a)[0]
    return a.mul(codes, a.mul(fwd.window_weight, fwd.norm[:, :, None])), one(a)[0]


def _query_gradient(
    a: Arithmetic, contract: Contract, head: Head, ds: Coded, there: Array
) -> Array:
    """dQ: windows of keys, ascending, then the softmax scale."""
    total = constant(a, 0.0)[0]
    for w in range(_windows(contract, ds.codes.shape[1])):
        weight = ds.scale[:, w] if isinstance(contract.schedule, Windows) else one(a)[0]
        raw, factor = combination(a, contract, ds, head.k, window=w, weight=weight)
        total = keep(a, there[:, w], a.fma(raw, factor, total), total)
    return a.mul(total, constant(a, head.scale)[0])


def token_gradient(
    a: Arithmetic, contract: Contract, coded: Coded, rows: Operand, seen: Array, total: Array
) -> Array:
    """dV from P and dO^, or dK from dS and Q^ (before its softmax scale), window by window.

    Args:
        a: The interpretation.
        contract: Gives the window.
        coded: P or dS in tiles, (M, W, L).
        rows: dO or Q, (M, D).
        seen: numpy bool (M, N): who sees whom.
        total: What earlier heads of the group left, (N, D) or a zero.
    """
    return chained(a, contract, from_keys(a, contract, coded, seen), rows, total)


@dataclass(frozen=True)
class FromKeys:
    """P or dS seen from the keys: tiles (N, M / tile, tile), and which of them are visited."""

    coded: Coded
    there: Array

    def first(self, keys: int) -> FromKeys:
        """The first keys alone; keys are independent of each other here."""
        return FromKeys(Coded(self.coded.codes[:keys], self.coded.scale[:keys]), self.there[:keys])


def from_keys(a: Arithmetic, contract: Contract, coded: Coded, seen: Array) -> FromKeys:
    """P or dS, (M, W, L), transposed."""
    tiles = seen.T.reshape(seen.shape[1], -1, tile_of(contract, len(seen)))
    return FromKeys(transpose(a, contract, coded), visited(contract, tiles))


def chained(
    a: Arithmetic, contract: Contract, weights: FromKeys, rows: Operand, total: Array
) -> Array:
    """``total`` and the tiles of queries in ascending order, (N, D)."""
    turned, there = weights.coded, weights.there
    for w in range(turned.codes.shape[1]):
        raw, factor = combination(a, contract, turned, rows, window=w, weight=turned.scale[:, w])
        total = keep(a, there[:, w], a.fma(raw, factor, total), total)
    return total


def joined_gradient(
    a: Arithmetic, contract: Contract, parts: Sequence[tuple[Coded, Operand]]
) -> Array:
    """The same for a contract without windows: (N, D).

    Args:
        a: The interpretation.
        contract: Gives the tile.
        parts: P or dS in tiles, and dO or Q, of each query head of the group.
    """
    return a.dot(*joined_operands(a, contract, parts), over="heads")


def joined_operands(
    a: Arithmetic, contract: Contract, parts: Sequence[tuple[Coded, Operand]]
) -> tuple[Array, Array]:
    """The operands of that dot: (N, M) and (D, M), M the queries of all parts."""
    weights = [transpose(a, contract, coded).dequantised(a) for coded, _ in parts]
    rows = [operand.dequantised(a) for _, operand in parts]
    return a.concatenate(weights, 1), a.concatenate(rows, 0).swapaxes(0, 1)


def group_gradient(
    a: Arithmetic,
    contract: Contract,
    heads: Sequence[Sequence[tuple[Coded, Operand]]],
    factor: Array,
) -> Array:
    """The same times a factor; where a contract leaves it open, heads may have been rounded.

    Args:
        a: The interpretation.
        contract: Gives the tile.
        heads: The parts of each query head.
        factor: 1, or the softmax scale.
    """
    every = [part for head in heads for part in head]
    total = a.mul(joined_gradient(a, contract, every), factor)
    if len(heads) == 1 or not rounds_heads(a, contract):
        return total
    single = [a.mul(joined_gradient(a, contract, head), factor) for head in heads]
    return head_sum(a, total, single)


def transpose(a: Arithmetic, contract: Contract, coded: Coded) -> Coded:
    """The tiles seen from the keys: (N, M / tile, tile) with the same codes and scales."""
    tile = tile_of(contract, len(coded.codes))
    m, groups, width = coded.codes.shape
    keys = groups * width
    codes = coded.codes.reshape(m, keys).swapaxes(0, 1).reshape(keys, -1, tile)
    scale = coded.scale[::tile].swapaxes(0, 1)  # (G, M / tile, 1): one scale a tile
    spread = a.broadcast(scale[:, None], (groups, width, m // tile, 1))
    return Coded(codes, spread.reshape(keys, -1, 1))


def _windows(contract: Contract, groups: int) -> int:
    return groups if isinstance(contract.schedule, Windows) else 1
