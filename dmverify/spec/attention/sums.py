"""The orders in which a row is summed.

    unspecified   any order; one lane
    quad          keys: key 8 J + 2 t + b of a 64-window belongs to lane t; a lane runs one chain
                  over J for each parity b and adds the two. Lanes stay apart over all windows and
                  are added at the end as (0 + 1) + (2 + 3).
                  channels: lane n of 32 owns D / 32 consecutive channels, one chain; lanes fold in
                  halves (n with n + 16, then 8, 4, 2, 1).

The quad order is what a wgmma accumulator's layout gives for nothing: a thread holds the columns
8 J + 2 t + b of its row (PTX ISA, register fragments of wgmma m64nNk32).
"""

from __future__ import annotations

from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.contracts import Contract
from dmverify.spec.namespace import Array

CHANNEL_LANES = 32


def row_sum(a: Arithmetic, contract: Contract, x: Array) -> Array:
    """Partial sums of (M, W, L) over each window: (M, W, lanes)."""
    if contract.schedule.row_sum == "unspecified":
        return a.sum(x, 2)
    chains = _chains(x)
    total = chains[:, :, 0]
    for step in range(1, chains.shape[2]):
        total = a.add(total, chains[:, :, step])
    return a.add(total[..., 0], total[..., 1])


def row_dot(a: Arithmetic, contract: Contract, x: Array, y: Array) -> Array:
    """Partial dots of two (M, W, L) over each window: (M, W, lanes)."""
    if contract.schedule.row_sum == "unspecified":
        return a.inner(x, y, 2)
    left, right = _chains(x), _chains(y)
    total = a.mul(left[:, :, 0], right[:, :, 0])
    for step in range(1, left.shape[2]):
        total = a.fma(left[:, :, step], right[:, :, step], total)
    return a.add(total[..., 0], total[..., 1])


def combine(a: Arithmetic, lanes: Array) -> Array:
    """Lanes (M, lanes) added in the order of a butterfly: (M, 1)."""
    while lanes.shape[1] > 1:
        lanes = a.add(lanes[:, 0::2], lanes[:, 1::2])
    return lanes


def channel_dot(a: Arithmetic, contract: Contract, x: Array, y: Array) -> Array:
    """Dots of the rows of two (M, D): (M, 1)."""
    if contract.schedule.row_sum == "unspecified":
        return a.inner(x, y, 1)
    left, right = (z.reshape(z.shape[0], CHANNEL_LANES, -1) for z in (x, y))
    total = a.mul(left[:, :, 0], right[:, :, 0])
    for step in range(1, left.shape[2]):
        total = a.fma(left[:, :, step], right[:, :, step], total)
    while total.shape[1] > 1:
        half = total.shape[1] // 2
        total = a.add(total[:, :half], total[:, half:])
    return total


def _chains(x: Array) -> Array:
    """(M, W, 64) as (M, W, 8 steps, 4 lanes, 2 parities)."""
    return x.reshape(x.shape[0], x.shape[1], 8, 4, 2)
