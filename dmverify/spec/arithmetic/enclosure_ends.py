"""What the enclosure's operations do to the ends of intervals: corners, slack, grains.

Corners: the least and largest result of the ends, which is the range of an operation that is
monotone in each operand. Open results stay open whatever their ends became. A grain is what no
nonzero number of an interval is below (``Interval.grain``): it keeps the scale of a tile that may
be all zeros away from 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dmverify.spec.arithmetic.enclosure_dot import OPERATIONS, TWO_U64, UNDERFLOW_ERROR, U, in_range
from dmverify.spec.arithmetic.interval import Flags, Interval, inward, last_bit, opened_where
from dmverify.spec.case import F64
from dmverify.spec.constants import constant
from dmverify.spec.formats import E4M3, Element
from dmverify.spec.lemmas import rests_on

FLOAT64_FUNCTION, E4M3_RELATIVE, E4M3_ABSOLUTE, SCALED_MAX, TINY_MAX, NORMAL = (
    float(constant(name))
    for name in (
        "FLOAT64_FUNCTION",
        "E4M3_RELATIVE",
        "E4M3_ABSOLUTE",
        "SCALED_MAX",
        "SCALED_TINY_MAX",
        "FP32_SMALLEST_NORMAL",
    )
)


def with_grain(x: Interval, grain: Callable[[], F64]) -> Interval:
    """The interval with its grain, where it holds 0 and other numbers."""
    if not ((x.lo <= 0) & (x.hi > 0)).any():
        return x
    return replace(x, grain=np.broadcast_to(np.maximum(grain(), 0.0), x.shape))


def difference_grain(a: Interval, b: Interval) -> F64:
    """A difference of multiples of a power of two is one as well."""
    return np.minimum(last_bit(a), last_bit(b))


def kept_grain(x: F64) -> F64:
    """A quotient's grain as a float32, 0 (which opens what divides by it) where it underflows."""
    return np.asarray((x * (1 - 2 * U)).astype(np.float32), dtype=np.float64)


def points_only(*operands: Interval) -> bool:
    """Whether every operand is one number, so that one corner is all of them."""
    return all(x.lo is x.hi for x in operands)


def corners(op: Callable[[F64, F64], F64], a: Interval, b: Interval) -> tuple[F64, F64]:
    """Least and largest of the ends' results, NaN where one is NaN."""
    if points_only(a, b):
        value = op(a.lo, b.lo)
        return value, value
    ends_a = (a.lo,) if points_only(a) else (a.lo, a.hi)
    ends_b = (b.lo,) if points_only(b) else (b.lo, b.hi)
    first, second, *others = ((x, y) for x in ends_a for y in ends_b)
    hi, value = np.asarray(op(*first)), op(*second)
    lo = np.asarray(np.minimum(hi, value))
    np.maximum(hi, value, out=hi)
    for ends in others:  # one by one, as the arrays of a long row take much room
        value = op(*ends)
        np.minimum(lo, value, out=lo)
        np.maximum(hi, value, out=hi)
    return lo, hi


def sum_ends(x: F64, y: F64) -> tuple[F64, F64]:
    """x + y between two neighbouring float64 numbers, or exactly (TwoSum)."""
    total = x + y
    shifted = total - x
    error = (x - (total - shifted)) + (y - shifted)
    return _moved(total, error < 0, -np.inf), _moved(total, error > 0, np.inf)


def _moved(x: F64, where: Flags, towards: float) -> F64:
    """x, and its neighbour where asked."""
    if not where.any():
        return x
    moved = x.copy()
    moved[where] = np.nextafter(x[where], towards)
    return moved


def stretched(lo: F64, hi: F64, relative: float) -> tuple[F64, F64]:
    """Positive numbers with a relative error, and float64's own."""
    return lo * (1 - relative - FLOAT64_FUNCTION), hi * (1 + relative + FLOAT64_FUNCTION)


def logarithm(
    function: Callable[[F64], F64], a: Interval, relative: float, absolute: float
) -> Interval:
    """A logarithm with a relative and an absolute error; open where the argument may be below 0."""
    lo, hi = function(a.lo), function(a.hi)
    wide = relative + FLOAT64_FUNCTION
    below, above = absolute + wide * np.abs(lo), absolute + wide * np.abs(hi)
    return shut(a, inward(lo - below, hi + above))


@rests_on("sum-any-tree", "sum-fma-chain", "add-no-underflow")
def any_order(terms: Interval, axis: int, *, extra: int, counted: int = 0) -> Interval:
    """A float32 sum of such terms in any order.

    ``extra``: roundings beyond one a term: 0 for products, -1 for a plain sum. ``counted``: terms
    that float64's own rounding is counted for, at least.
    """
    size = terms.magnitude
    low, high, whole = (x.sum(axis, keepdims=True) for x in (terms.lo, terms.hi, size))
    count = np.maximum((size > 0).sum(axis, keepdims=True) + extra, 0)
    evaluation = (max(size.shape[axis], counted) + OPERATIONS) * TWO_U64
    error = np.where(count > 0, (count * U + evaluation) * (1 + evaluation) * whole, 0.0)
    tiny = UNDERFLOW_ERROR * (1 + size.shape[axis] * U)
    error = error + count * (tiny if extra == 0 else 0.0)
    return in_range(inward(low - error, high + error), whole + error)


@rests_on("scale-divide-range", "scale-tiny-overshoot")
def largest_quotient(scale: F64) -> F64:
    """What amax / RN(amax / 448) is at most: a subnormal scale misses by up to UNDERFLOW_ERROR."""
    tiny = np.minimum(SCALED_MAX * (1 + UNDERFLOW_ERROR / scale) * (1 + 2 * U), TINY_MAX)
    return np.where(scale >= NORMAL, SCALED_MAX, np.where(scale > 0, tiny, np.inf))


@rests_on("rn-error", "rn-error-subnormal")
def _largest_of(scale: F64, fmt: Element) -> F64:
    """The same of any format: RN(amax / largest) misses by U, and by UNDERFLOW_ERROR where tiny."""
    if fmt is E4M3:
        return largest_quotient(scale)
    limit = fmt.max_finite * (1 + 2 * U)
    tiny = limit * (1 + UNDERFLOW_ERROR / scale) * (1 + 2 * U)
    return np.asarray(np.where(scale >= NORMAL, limit, np.where(scale > 0, tiny, np.inf)))


@rests_on("e4m3-double-rounding", "e4m3-error", "e4m3-error-tiny")
def near_what_was_cast(x: Interval, scale: Interval) -> Interval:
    """What code x scale is within (e4m3-double-rounding), for quotients up to 464."""
    most = np.maximum(x.magnitude * E4M3_RELATIVE, scale.magnitude * E4M3_ABSOLUTE)
    most = (most + U * x.magnitude) * (1 + OPERATIONS * TWO_U64)
    return Interval(x.lo - most, x.hi + most)


def scaled(quotient: Interval, x: Interval, scale: Interval, fmt: Element) -> Interval:
    """x / scale within what a scale made of x's own amax allows, and what its code stands for.

    What a code stands for is known of E4M3 alone.
    """
    if scale.grain is not None:
        scale = Interval(np.where(scale.lo == 0, scale.grain, scale.lo), scale.hi)
    near = near_what_was_cast(x, scale) if fmt is E4M3 else None
    if quotient.known:
        return Interval(quotient.lo, quotient.hi, near)
    limit = np.broadcast_to(_largest_of(scale.lo, fmt), quotient.shape)
    unlimited = quotient.open & np.isinf(limit)
    lo = np.where(unlimited, -np.inf, np.maximum(quotient.lo, -limit))
    hi = np.where(unlimited, np.inf, np.minimum(quotient.hi, limit))
    kept = shut(x, Interval(lo, hi))
    return Interval(kept.lo, kept.hi, near)


def opened(lo: F64, hi: F64) -> Interval:
    """Open where the upper end is infinite or an end NaN."""
    if lo is hi and not (hi == np.inf).any():
        return Interval(lo, lo)
    return opened_where((hi == np.inf) | np.isnan(lo) | np.isnan(hi), lo, hi)


def shut(source: Interval, x: Interval) -> Interval:
    """Open where the source is, whatever was made of its ends."""
    wild = source.open
    if not wild.any():
        return x
    return replace(opened_where(wild, x.lo, x.hi), near=x.near)
