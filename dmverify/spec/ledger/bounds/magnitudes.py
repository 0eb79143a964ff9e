"""Magnitudes that several bounds share, and the orders of summation that a contract allows.

Everything here is a sum of nonnegative float64 numbers, so each result is within a relative error
of 2^-53 per operation; the table of bounds raises the final figure by more than that.

Sums in fp32 (Jeannerod and Rump 2013; Higham 2002, section 3.1), for n terms in any order
    sum: (n - 1) U sum |x|          dot with rounded products or fma: n U sum |x y|
and for a stated order with at most k roundings on the way of each term: ((1 + U)^k - 1) sum |x|.
The quad order runs chains of 8 keys, one more addition, one fma a window, two additions of lanes.
Where one term holds most of a sum in any order, with S all the sizes and T those of the others,
    sum: sum over the others of min(U S, |x|) (1 + n U) + n U T          dot: 2 U S more
is less: an addition never errs by more than what is added (sum-dominated). Rows of sharp attention
are such sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from dmverify.spec.case import F64
from dmverify.spec.contracts import Windows
from dmverify.spec.ledger.bounds.constants import (
    CHANNEL_FOLDS,
    CHANNEL_LANES,
    P_MAX_EXPONENT,
    QUAD_CHAIN,
    QUAD_LANES,
    RESCALE_THRESHOLD,
    TWO_U64,
    U,
)
from dmverify.spec.ledger.bounds.derived import Derived
from dmverify.spec.ledger.row_block import RowBlock, is_far, logit_of
from dmverify.spec.ledger.terms import ExactSums
from dmverify.spec.lemmas import rests_on
from dmverify.spec.premises import Failing


class Magnitudes(Derived):
    """The shared magnitudes of a block, each formed once; M rows, N keys, D channels."""

    def __init__(self, block: RowBlock, sums: ExactSums) -> None:
        self.block = block
        self.sums = sums
        self.contract = block.contract
        self.failing: Failing | None = None
        self.kept: dict[str, F64] = {}

    @cached_property
    def quad(self) -> bool:
        """Whether a row is summed in the quad order."""
        return isinstance(self.schedule, Windows) and self.schedule.row_sum == "quad"

    @cached_property
    def keys(self) -> F64:
        """Keys that a row sees, (M,)."""
        return total(self.block.seen.astype(np.float64))

    @cached_property
    def windows(self) -> int:
        """Windows of the online softmax."""
        return -(-int(self.block.p.shape[1]) // self.width)

    @cached_property
    def width(self) -> int:
        """Keys of a window; all of them where the contract has none."""
        return max(self.schedule.step(int(self.block.p.shape[1])), 1)

    @cached_property
    def forward_p(self) -> F64:
        """P~, (M, N)."""
        norm = self.block.norm[:, None]
        weights = self.block.weights
        return np.asarray(weights / norm if self.block.norm_divides else weights * norm)

    @cached_property
    def forward_o(self) -> F64:
        """sum_j P~ |V^f_jk|, (M, D)."""
        return np.asarray(self.forward_p @ np.abs(self.block.v_forward))

    @cached_property
    def moved(self) -> F64:
        """|dP - shift|, (M, N)."""
        return np.abs(self.block.dp - self.block.shift[:, None])

    @cached_property
    def p_moved(self) -> F64:
        """sum_j P |dP - shift|, (M,)."""
        return total(self.block.p * self.moved)

    @cached_property
    def products(self) -> F64:
        """sum_k |dO^_ik V^b_jk|, (M, N)."""
        return np.asarray(np.abs(self.block.do) @ np.abs(self.block.v).T)

    @cached_property
    def dp_size(self) -> F64:
        """Upper bound of |dP*|, (M, N)."""
        channels = self.block.v.shape[1]
        return np.asarray(
            np.abs(self.block.do @ self.block.v.T) + channels * TWO_U64 * self.products
        )

    @cached_property
    def ds_size(self) -> F64:
        """sum_j |dS|, at least its correctly rounded value, (M,)."""
        size = np.abs(self.block.ds)
        right = np.array([math.fsum(row) for row in size.tolist()], dtype=np.float64)
        return np.asarray(np.maximum(size.sum(axis=1), right))

    @cached_property
    def delta(self) -> F64:
        """|delta|, (M,)."""
        return np.abs(self.block.delta)

    @cached_property
    def logit(self) -> F64:
        """Upper bound of a row's logits in base 2, (M,): norms, or where they are large, sizes."""
        q, k, problem = self.block.q, self.block.k, self.block.problem
        size = np.linalg.norm(q, axis=1) * self.block.k_norm
        far = is_far(size, problem)
        if far.any():
            size[far] = largest(np.abs(q[far]) @ np.abs(k).T)
        return logit_of(size, problem)

    @cached_property
    def exponent(self) -> F64:
        """The same with what a window's and the running reference are away from it, (M,)."""
        return np.asarray(self.logit + P_MAX_EXPONENT + 2 * RESCALE_THRESHOLD)


def once(measure: Callable[[Magnitudes], F64]) -> Callable[[Magnitudes], F64]:
    """The measure, formed once for each row block."""

    def kept(sizes: Magnitudes) -> F64:
        if measure.__name__ not in sizes.kept:
            sizes.kept[measure.__name__] = measure(sizes)
        return sizes.kept[measure.__name__]

    return kept


def total(x: F64) -> F64:
    """Sum of each row, (M, N) -> (M,)."""
    return np.asarray(x.sum(axis=1), dtype=np.float64)


def largest(x: F64) -> F64:
    """Maximum of each row, 0 for an empty one, (M, N) -> (M,); for nonnegative x."""
    return np.asarray(x.max(axis=1, initial=0.0), dtype=np.float64)


def path(roundings: F64 | float) -> F64:
    """(1 + U)^k - 1: the relative error of a term that is rounded k times."""
    return np.asarray(np.expm1(np.asarray(roundings, dtype=np.float64) * np.log1p(U)))


def compound(*relative: F64 | float) -> F64:
    """(1 + a)(1 + b)... - 1."""
    product = np.zeros(())
    for each in relative:
        product = np.asarray(product + each + product * each)
    return product


def sum_error(sizes: Magnitudes) -> F64:
    """Error of a sum of the row's P, relative to it, in the contract's order."""
    error = _row_order(sizes, chain=QUAD_CHAIN - 1, free=-1)
    if sizes.windowed:
        return error
    return np.minimum(error, dominated(sizes.block.p))


def dot_error(sizes: Magnitudes) -> F64:
    """The same for a dot of P and dP - shift, roundings of its products included."""
    error = _row_order(sizes, chain=QUAD_CHAIN, free=0)
    if sizes.windowed:
        return error
    return np.minimum(error, dominated(sizes.block.p * sizes.moved) + path(2))


def row_order_error(sizes: Magnitudes) -> F64:
    """The same by the order alone: what it makes of what underflow took of a product."""
    return _row_order(sizes, chain=QUAD_CHAIN, free=0)


@rests_on("sum-dominated")
def dominated(x: F64) -> F64:
    """Error of a sum of terms of these sizes in any order, relative to them: (M, N) -> (M,).

    The sizes may be off by a few U: those of P stand for those of e.
    """
    if not x.size:
        return np.zeros(len(x))
    x = x * (1 + path(2)) ** 2
    whole = total(x)
    others = x.copy()
    np.put_along_axis(others, x.argmax(axis=1)[:, None], 0.0, axis=1)
    grown = total((x > 0).astype(np.float64)) * U
    capped = np.minimum(others, (U * (1 + grown) * whole)[:, None])
    error = (1 + grown) * total(capped) + grown * total(others)
    return np.divide(error * (1 + path(2)) ** 2, whole, out=np.zeros_like(whole), where=whole > 0)


def channel_error(sizes: Magnitudes) -> F64:
    """The same for a dot over channels."""
    channels = sizes.block.v.shape[1]
    if not sizes.quad:
        return np.asarray(channels * U)
    return path(channels / CHANNEL_LANES + CHANNEL_FOLDS)


def _row_order(sizes: Magnitudes, *, chain: int, free: int) -> F64:
    if sizes.quad:
        return path(chain + 1 + sizes.windows + QUAD_LANES)
    seen = np.maximum(sizes.keys + free, 0)
    if not sizes.windowed:
        return np.asarray(seen * U)
    return compound(np.minimum(seen, sizes.width) * U, path(sizes.windows))
