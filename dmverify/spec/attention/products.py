"""How a contract multiplies scaled operands: on dequantised numbers, or on codes with one scalar.

    dequantised   x = code * scale is formed first; the product needs no further factor
    codes         raw = codes codes^T; the scales are one scalar per tile, formed as
                  (row scale) * (column scale), the same in both orientations

(acc * sq) * sk differs from (acc * sk) * sq in 35 % of cases (measured in simulation), which is
why the scalar is formed first. Each function returns (raw, factor), the product being raw *
factor. ``similarity`` contracts channels (S and dP); ``combination`` contracts the tokens of one
window (O, dQ, dK, dV).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.operands import Operand
from dmverify.spec.contracts import Contract, Windows
from dmverify.spec.namespace import Array


@dataclass(frozen=True)
class Coded:
    """A matrix cast in groups of columns: codes (M, G, g), and a scale that broadcasts to it."""

    codes: Array
    scale: Array

    def dequantised(self, a: Arithmetic) -> Array:
        """code x scale, (M, N)."""
        return flat(a.mul(self.codes, self.scale))


def similarity(a: Arithmetic, contract: Contract, x: Operand, y: Operand) -> tuple[Array, Array]:
    """Dots of rows: raw (M, W, L) by windows of y's rows; factor (M, W, 1), or 1."""
    width = contract.schedule.step(y.codes.shape[0])
    if contract.schedule.operands not in ("codes", "whole"):
        raw = a.dot(x.dequantised(a), y.dequantised(a), over="channels")
        return raw.reshape(raw.shape[0], -1, width), one(a)
    raw = a.dot(x.codes, y.codes, over="channels")
    factor = a.mul(x.scale, y.scale[::width].swapaxes(0, 1))
    return raw.reshape(raw.shape[0], -1, width), factor[:, :, None]


def combination(
    a: Arithmetic, contract: Contract, x: Coded, y: Operand, *, window: int, weight: Array
) -> tuple[Array, Array]:
    """Weighted sum of y's rows in one window: raw (M, D), factor (M, 1).

    With codes, ``weight`` (M, 1) stands for x's scale in that window and y has one scale there.
    """
    if not isinstance(contract.schedule, Windows):
        columns = y.dequantised(a).swapaxes(0, 1)
        return a.dot(x.dequantised(a), columns, over="tokens"), weight
    codes = x.codes[:, window]
    rows = y.rows(window * codes.shape[1], (window + 1) * codes.shape[1])
    raw = a.dot(codes, rows.codes.swapaxes(0, 1), over="tokens")
    return raw, a.mul(weight, rows.scale[:1])


def visited(contract: Contract, seen: Array) -> Array:
    """Which windows a row's tile of queries visits: numpy bool (M, W, 1), static.

    A tile of queries x keys in which nobody sees anybody is skipped, so that not even a NaN in a
    hidden row reaches it. A contract without windows visits everything.
    """
    if not isinstance(contract.schedule, Windows):
        return np.ones((*seen.shape[:2], 1), bool)
    side = tile_of(contract, len(seen))
    tiles = seen.any(2).reshape(-1, side, seen.shape[1]).any(1)
    return tiles.repeat(side, 0)[:, :, None]


def tile_of(contract: Contract, length: int) -> int:
    """Side of a tile along a matrix: one that is shorter than a tile is a tile."""
    return min(getattr(contract.schedule, "tile", 64), length)


def keep(a: Arithmetic, there: Array, new: Array, old: Array) -> Array:
    """``new`` where a static mask is set, ``old`` elsewhere."""
    return new if there.all() else a.select(a.mask(there), new, old)


def constant(a: Arithmetic, value: float) -> Array:
    """A float32 constant as a (1, 1, 1) array."""
    return a.array(np.full((1, 1, 1), value, np.float32))


def one(a: Arithmetic) -> Array:
    """The number 1 as a (1, 1, 1) array."""
    return constant(a, 1.0)


def flat(x: Array) -> Array:
    """(M, W, L) as (M, W * L)."""
    return x.reshape(x.shape[0], -1)
