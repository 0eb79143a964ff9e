"""Enclosures for kernels whose tiles, running maxima and orders are not public.

| dot | interval |
|---|---|
| BF16 operands, one or both | products in any order, in float32 or on tensor cores that truncate |
| INT8 codes | the exact sum, rounded once |
| E4M3 codes over channels | one chain of FP8 wgmma from C = 0, any order |
| other FP8 codes, or tokens | chains of FP8 wgmma, C perhaps rescaled in between, any order |

A tensor core adds n products to C in steps of k products. A step aligns them at the largest
exponent E, with quantum q = 2^(E - F), truncates each term and then the sum. With N+ and N- the
sums of the positive and the negative products, no partial sum exceeds B = max(N+, N-) but for the
errors themselves, so q <= 2^-F B where every code is normal; a subnormal one keeps the exponent of
the least normal one, so B is raised to what a product with that one would be. A step takes at most
q from C, q from the sum, and min(|p|, q) from a product p; a product of magnitude above 2^-(F - 8)
B, having 6 fraction bits, loses nothing:

    |D - sum p| <= sum over p of min(|p|, q) + 2 q ceil(n / k)              F = 13 for FP8, k = 32
    |D - sum p| <= (n + 3 ceil(n / k) + 8) U B'                             BF16, F >= 24, k = 16

B' = sum |p|; the 8 are the roundings of softmax scale, rescale and store; rescaling C by a factor
of at most 1 shrinks the errors made before as it shrinks the sum. Sources: FP8, the model of
``dmverify.spec.hopper``, bit-exact on an H200, in E5M2 too, whose products have fewer bits; BF16,
at least 24 fraction bits and truncation are published for Ampere and Hopper (Xie et al., "MMA-Sim",
2025). Not covered: f16 accumulators.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np

from dmverify.spec.arithmetic.enclosure import Enclosure
from dmverify.spec.arithmetic.enclosure_dot import (
    ACC_TRUNCATION,
    K32,
    OPERATIONS,
    SMALLEST_NORMAL,
    TWO_U64,
    UNDERFLOW_ERROR,
    Sums,
    U,
    _signed_sums,
    in_range,
    sums_of,
    wgmma_any_order,
)
from dmverify.spec.arithmetic.interval import Interval, inward, opened_where, rounded
from dmverify.spec.case import F64
from dmverify.spec.constants import constant
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import BF16, E4M3, E5M2, INT8, Element
from dmverify.spec.lemmas import rests_on

EXACT_ABOVE = 2 * float(constant("SURELY_EXACT"))  # of B, which is below 2 2^E
ERRORS = float(constant("RESCALE_GROWTH"))  # truncation raises no partial sum, roundings may
NORMAL_CODES = E4M3.min_normal / E4M3.min_subnormal  # 8, and 4 in E5M2
OVER = ("channels", "tokens", "heads")
BF16_STEP, BF16_STEP_LOSS, ROUNDINGS = (
    int(constant(name)) for name in ("BF16_STEP", "BF16_STEP_LOSS", "OPEN_ROUNDINGS")
)


class OpenEnclosure(Enclosure):
    """Intervals for a contract with an online softmax.

    Args:
        contract: Gives what dots run on.
        group: Query heads of a key head, whose parts of dK and dV are added in any order.
    """

    name = "open enclosure"

    def __init__(self, contract: Contract, *, group: int = 1) -> None:
        super().__init__(contract)
        self._more = ROUNDINGS + group
        self._units = {over: unit_of(contract, over) for over in OVER}

    def dot(self, a: Interval, b: Interval, *, over: str) -> Interval:
        """(M, K) and (N, K) to (M, N); where dots of two kinds sum over the same, both."""
        found = [self._on(kind, a, b, over) for kind in sorted(self._units[over])]
        first, *rest = found
        return reduce(hull, rest, first)

    def _on(self, kind: str, a: Interval, b: Interval, over: str) -> Interval:
        if kind == "int8":
            return integer_dot(a, b)
        if kind == "bf16":
            return bf16_dot(a, b, more=self._more)
        if over == "channels":  # codes
            if kind == "e4m3" and a.known and b.known:
                return wgmma_any_order(a, b)
            a, b = (replace(x, tall=SMALLEST_NORMAL) for x in (a, b))
        return fp8_dot(a, b, more=self._more)

    def of_codes(self, x: Interval, scale: Interval, fmt: Element) -> Interval:
        """With what the least normal code is worth."""
        if fmt not in (E4M3, E5M2):
            return x
        return replace(x, tall=float(fmt.min_normal * scale.magnitude.max(initial=0.0)))

    def enclosed(self, sums: Sums) -> Interval:
        """A dot over tokens from its sums; for BF16 operands."""
        return bf16_enclosed(sums, more=self._more)


def unit_of(contract: Contract, over: str) -> frozenset[str]:
    """The kinds of dots that sum over channels, tokens or heads: e4m3, fp8, int8, bf16.

    A dot of P is one on E4M3 codes where P is cast to them; dS is taken with its operand.
    """
    schedule, backward = contract.schedule, contract.gradients
    q, k, v, do = (contract.element(name) for name in ("q", "k", "v", "do"))
    p: Element = E4M3 if schedule.p == "e4m3" else BF16
    ds: Element = E5M2 if contract.ds_format == "e5m2" else E4M3
    pairs = {
        "channels": [(q, k), (do, v)],
        "tokens": [(p, v), (ds, k)],
        "heads": [(ds, q), (E4M3, do)],
    }[over]
    return frozenset(_kind(*pair) for pair in (pairs if backward else pairs[:1]))


def _kind(x: Element, y: Element) -> str:
    both = {x, y}
    if BF16 in both:
        return "bf16"
    if both == {INT8}:
        return "int8"
    return "e4m3" if both == {E4M3} else "fp8"


def hull(x: Interval, y: Interval) -> Interval:
    """What is in one of two intervals."""
    return opened_where(x.open | y.open, np.minimum(x.lo, y.lo), np.maximum(x.hi, y.hi))


def integer_dot(a: Interval, b: Interval) -> Interval:
    """Integers of one byte: exact in 32 bits, so in float64 too, then a float32."""
    sums = sums_of(a, b)
    return rounded(sums.mid - sums.reach, sums.mid + sums.reach)


@rests_on("sum-fma-chain", "rn-error-subnormal")
def bf16_dot(a: Interval, b: Interval, *, more: int) -> Interval:
    """Tensor core or float32, any order; ``more`` further roundings of the whole."""
    return bf16_enclosed(sums_of(a, b), more=more)


def bf16_enclosed(sums: Sums, *, more: int) -> Interval:
    """The same from the sums of a dot."""
    terms, evaluation = sums.terms, sums.evaluation
    steps = np.minimum(terms, -(-sums.length // BF16_STEP))
    count = terms + BF16_STEP_LOSS * steps + more
    error = sums.reach + (count * U + evaluation) * (1 + evaluation) * sums.size
    error = error + np.where(sums.size > 0, count * UNDERFLOW_ERROR, 0.0)
    return in_range(inward(sums.mid - error, sums.mid + error), sums.size + error)


@rests_on("wgmma-natural", "wgmma-partials", "wgmma-large-exact")
def fp8_dot(a: Interval, b: Interval, *, more: int) -> Interval:
    """Chains of FP8 wgmma with rescaled C, any order.

    Where nobody said what the codes of an operand are worth (``Interval.tall``) the largest of
    each row is taken for the least code of all.
    """
    sums = sums_of(a, b)
    mid, spread, size = sums.mid, sums.reach, sums.size
    up, down = _signed_sums(a, b)
    peak = np.maximum(up, down) * ERRORS
    top = np.maximum(peak, _of_subnormals(a, b))  # at least 2^E
    quantum = ACC_TRUNCATION * top
    loss = _truncated(a, b, quantum, EXACT_ABOVE * top)
    steps = -(-a.shape[-1] // K32)
    evaluation = (a.shape[-1] + OPERATIONS) * TWO_U64
    error = loss + 2 * steps * quantum + (more * U + evaluation) * size
    error = (spread + error) * (1 + evaluation)
    error = np.where(size > 0, error + (a.shape[-1] + more) * UNDERFLOW_ERROR, 0.0)
    return in_range(inward(mid - error, mid + error), size + error)


def _of_subnormals(a: Interval, b: Interval) -> F64:
    """Upper bound of 2^E of products that have a subnormal code, (M, N)."""
    (left, least_left), (right, least_right) = (_row_powers(x) for x in (a, b))
    left, least_left = left[..., :, None], least_left[..., :, None]
    right, least_right = right[..., None, :], least_right[..., None, :]
    one = np.maximum(least_left * right, left * least_right)
    return np.asarray(np.maximum(one, least_left * least_right))


def _row_powers(x: Interval) -> tuple[F64, F64]:
    """The largest magnitude of each row, and what its least normal code is worth; 0 for zeros."""
    most = x.magnitude.max(-1, initial=0.0)
    if x.tall is None:
        return most, most * NORMAL_CODES
    return most, np.where(most > 0, x.tall, 0.0)


def _truncated(a: Interval, b: Interval, quantum: F64, exact: F64) -> F64:
    """Sum over the products of what truncation may take, (M, N)."""
    size_a, size_b = a.magnitude, b.magnitude
    least_a, least_b = a.mignitude, b.mignitude
    total = np.zeros_like(quantum)
    for k in range(size_a.shape[-1]):
        most = size_a[..., k, None] * size_b[..., None, :, k]
        kept = least_a[..., k, None] * least_b[..., None, :, k] >= exact
        total += np.where(kept, 0.0, np.minimum(most, quantum))
    return total
