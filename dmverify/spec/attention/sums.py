"""The orders in which a row is summed, for the steps that several schedules share.

    any order   rows that are whole: one sum, wherever it starts
    quad        keys: key 8 J + 2 t + b of a 64-window belongs to lane t; a lane runs one chain
                over J for each parity b and adds the two. Lanes stay apart over all windows and
                are added at the end as (0 + 1) + (2 + 3).
                channels: lane n of 32 owns D / 32 consecutive channels, one chain; lanes fold in
                halves (n with n + 16, then 8, 4, 2, 1).

The quad order is what a wgmma accumulator's layout gives for nothing: a thread holds the columns
8 J + 2 t + b of its row (PTX ISA, register fragments of wgmma m64nNk32). A contract with windows
may leave it open; then a window has one lane, summed in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dmverify.spec.attention.num import Flags, Num, any_of, apply, fma, inner, total, where
from dmverify.spec.attention.operands import BlockScaled
from dmverify.spec.attention.state import Scores

CHANNEL_LANES = 32


class Order(Protocol):
    """How a schedule sums over a row; every sum is (M, 1)."""

    def of_products(self, p: Num, x: Num, scale: Num) -> Num:
        """Sum of p x scale over the keys."""

    def ratio(self, numerator: Num, p: Num, live: Flags) -> Num:
        """``numerator`` over the sum of p."""

    def over_channels(self, x: Num, y: Num) -> Num:
        """Dots of the rows of two (M, D)."""

    def with_operand(self, x: BlockScaled, y: Num) -> Num:
        """Dot of each row of a scaled operand and of ``y``, both (M, D): (M, 1)."""

    def at_maximum(self, s: Scores, b: Num, x: Num) -> Num:
        """x, in the shape of the scores, at the first of each row's largest ones."""

    def beside_scores(self, x: Num) -> Num:
        """(M, 1) with as many axes as the scores."""


class AnyOrder:
    """Rows that are whole."""

    def of_products(self, p: Num, x: Num, scale: Num) -> Num:
        """One sum, then its scale."""

        def over_row(terms: Num) -> Num:
            return fma(inner(p, terms, 1, over="tokens"), scale, 0.0)

        return within(over_row(x), lambda: over_row(abs(x)))

    def ratio(self, numerator: Num, p: Num, live: Flags) -> Num:
        """A dense kernel may divide a NaN that hides in a row which sees no key."""
        return numerator / where(live, total(p, 1, over="tokens"), 1.0)

    def over_channels(self, x: Num, y: Num) -> Num:
        """One sum."""
        return inner(x, y, 1, over="channels")

    def with_operand(self, x: BlockScaled, y: Num) -> Num:
        """On code x scale."""
        return self.over_channels(x.numbers, y)

    def at_maximum(self, s: Scores, b: Num, x: Num) -> Num:
        """Row by row."""
        masked = where(s.seen, s.acc, -math.inf)
        keys, values = (z.reshape(len(z), 1, -1) for z in (masked, x))
        return apply("at_largest", values, where(s.live, b, -math.inf)[:, :, None], keys)

    def beside_scores(self, x: Num) -> Num:
        """As it is."""
        return x


@dataclass(frozen=True)
class ByWindow:
    """Windows in ascending order, lane by lane.

    Attributes:
        quad: Whether the order inside a window is stated.
        visited: Windows that a row's tile visits, (M, W, 1): not even a NaN elsewhere is summed.
    """

    quad: bool
    visited: Flags

    def of_products(self, p: Num, x: Num, scale: Num) -> Num:
        """A dot over each window, then over the windows."""

        def over_row(terms: Num) -> Num:
            return self.over_windows(row_dot(p, terms, quad=self.quad), scale)

        return within(over_row(x), lambda: over_row(abs(x)))

    def ratio(self, numerator: Num, p: Num, live: Flags) -> Num:
        """0 where the sum of p is: in rows that see no key, whatever hides in their tiles."""
        weights = self.over_windows(row_sum(p, quad=self.quad), p.of(1.0))
        return where(live, numerator / where(live, weights, 1.0), 0.0)

    def over_windows(self, lanes: Num, scale: Num) -> Num:
        """(M, W, lanes) over the visited windows, lane by lane, then over the lanes: (M, 1)."""
        found = lanes.of(0.0)[0]
        for w in range(lanes.shape[1]):
            step = scale[:, w] if scale.shape[1] > 1 else scale[:, 0]
            found = select_static(self.visited[:, w], fma(lanes[:, w], step, found), found)
        return combine(found)

    def over_channels(self, x: Num, y: Num) -> Num:
        """32 lanes, folded in halves."""
        return channel_dot(x, y) if self.quad else inner(x, y, 1, over="channels")

    def with_operand(self, x: BlockScaled, y: Num) -> Num:
        """On codes, then the row's scale."""
        return self.over_channels(x.codes, y) * x.scale

    def at_maximum(self, s: Scores, b: Num, x: Num) -> Num:
        """The window of the largest b first."""
        keys = where(s.seen, s.acc, -math.inf)
        return apply("at_largest", x, where(s.live, b, -math.inf), keys)

    def beside_scores(self, x: Num) -> Num:
        """(M, windows) with an axis of 1 for the keys of a window."""
        return x[:, :, None]


def within(found: Num, mass: Callable[[], Num]) -> Num:
    """A sum; as a set it is open where partial sums of magnitude up to ``mass()`` may overflow."""
    return any_of(found, lambda: apply("within", found, mass()))


def row_sum(x: Num, *, quad: bool) -> Num:
    """Partial sums of (M, W, L) over each window: (M, W, lanes)."""
    if not quad:
        return total(x, 2, over="tokens")
    chains = _chains(x)
    found = chains[:, :, 0]
    for step in range(1, chains.shape[2]):
        found = found + chains[:, :, step]
    return found[..., 0] + found[..., 1]


def row_dot(x: Num, y: Num, *, quad: bool) -> Num:
    """Partial dots of two (M, W, L) over each window: (M, W, lanes)."""
    if not quad:
        return inner(x, y, 2, over="tokens")
    left, right = _chains(x), _chains(y)
    found = left[:, :, 0] * right[:, :, 0]
    for step in range(1, left.shape[2]):
        found = fma(left[:, :, step], right[:, :, step], found)
    return found[..., 0] + found[..., 1]


def combine(lanes: Num) -> Num:
    """Lanes (M, lanes) added in the order of a butterfly: (M, 1)."""
    while lanes.shape[1] > 1:
        lanes = lanes[:, 0::2] + lanes[:, 1::2]
    return lanes


def channel_dot(x: Num, y: Num) -> Num:
    """Dots of the rows of two (M, D) in the quad order: (M, 1)."""
    left, right = (z.reshape(len(z), CHANNEL_LANES, -1) for z in (x, y))
    found = left[:, :, 0] * right[:, :, 0]
    for step in range(1, left.shape[2]):
        found = fma(left[:, :, step], right[:, :, step], found)
    while found.shape[1] > 1:
        half = found.shape[1] // 2
        found = found[:, :half] + found[:, half:]
    return found


def select_static(where_set: Flags, new: Num, old: Num) -> Num:
    """``new`` where a mask that is known beforehand is set, ``old`` elsewhere."""
    return new if where_set.all() else where(where_set, new, old)


def _chains(x: Num) -> Num:
    """(M, W, 64) as (M, W, 8 steps, 4 lanes, 2 parities)."""
    return x.reshape(x.shape[0], x.shape[1], 8, 4, 2)
