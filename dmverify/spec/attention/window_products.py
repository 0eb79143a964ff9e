"""Products on codes by windows, and tiles of P and dS seen from the keys.

A tile of queries x keys has one scalar, the product of its two scales; it is formed first, alike in
both orientations: (acc s_q) s_k differs from (acc s_k) s_q in 35 % of cases (measured in
simulation). Each product returns (accumulators, scalar).
"""

from __future__ import annotations

from dataclasses import dataclass

from dmverify.spec.attention.casts import side
from dmverify.spec.attention.num import Flags, Num, broadcast, dot, fma
from dmverify.spec.attention.operands import BlockScaled, Head
from dmverify.spec.attention.sums import ByWindow, select_static
from dmverify.spec.contracts import Windows


def on_codes(x: BlockScaled, y: BlockScaled, window: int) -> tuple[Num, Num]:
    """Dots of the rows by windows of y, (M, W, L), and their one scalar a tile, (M, W, 1)."""
    acc = dot(x.codes, y.codes, over="channels").reshape(len(x.codes), -1, window)
    return acc, (x.scale * y.scale[::window].T)[:, :, None]


def combination(codes: Num, y: BlockScaled, *, window: int, weight: Num) -> tuple[Num, Num]:
    """Codes (M, L) of one window times y's rows there: accumulators (M, D), and their scalar."""
    rows = y.rows(window * codes.shape[1], (window + 1) * codes.shape[1])
    return dot(codes, rows.codes.T, over="tokens"), weight * rows.scale[:1]


def query_gradient(order: ByWindow, head: Head, ds: BlockScaled) -> Num:
    """Step 11: dQ, windows of keys in ascending order, then the softmax scale."""
    found = ds.codes.of(0.0)[0]
    for w in range(ds.codes.shape[1]):
        acc, scale = combination(ds.codes[:, w], head.k, window=w, weight=ds.scale[:, w])
        found = select_static(order.visited[:, w], fma(acc, scale, found), found)
    return found * head.scale


@dataclass(frozen=True)
class FromKeys:
    """P or dS seen from the keys: tiles (N, M / tile, tile), and which of them are visited."""

    coded: BlockScaled
    visited: Flags


def from_keys(schedule: Windows, coded: BlockScaled, seen: Flags, keys: int) -> FromKeys:
    """P or dS, (M, W, L), transposed, of the first keys; seen is (M, N)."""
    tiles = seen.T.reshape(seen.shape[1], -1, side(len(seen), schedule.tile))
    turned, visited = transpose(coded, schedule.tile), visited_tiles(tiles, schedule.tile)
    return FromKeys(turned.rows(0, keys), visited[:keys])


def transpose(coded: BlockScaled, tile: int) -> BlockScaled:
    """The tiles seen from the keys: (N, M / tile, tile) with the same codes and scales."""
    m, groups, width = coded.codes.shape
    edge, keys = side(m, tile), groups * width
    codes = coded.codes.reshape(m, keys).T.reshape(keys, -1, edge)
    scale = coded.scale[::edge].swapaxes(0, 1)  # (W, M / tile, 1): one scale a tile
    spread = broadcast(scale[:, None], (groups, width, m // edge, 1))
    return BlockScaled(codes, spread.reshape(keys, -1, 1))


def token_chain(weights: FromKeys, rows: BlockScaled, found: Num) -> Num:
    """Step 11: ``found`` and the tiles of queries in ascending order, (N, D), without the scale."""
    turned = weights.coded
    for w in range(turned.codes.shape[1]):
        acc, scale = combination(turned.codes[:, w], rows, window=w, weight=turned.scale[:, w])
        found = select_static(weights.visited[:, w], fma(acc, scale, found), found)
    return found


def visited_tiles(seen: Flags, tile: int) -> Flags:
    """Which windows a row's tile of queries visits, (M, W, 1), known beforehand."""
    edge = side(len(seen), tile)
    tiles = seen.any(2).reshape(-1, edge, seen.shape[1]).any(1)
    return tiles.repeat(edge, 0)[:, :, None]
