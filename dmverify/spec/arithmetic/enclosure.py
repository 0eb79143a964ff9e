"""How far a conforming kernel may be: every number is a set of the float32 numbers it can have.

Each operation returns an interval that holds the result of every kernel that obeys the contract,
whatever it does where the contract leaves it free; by induction over the steps so do the outputs.

| operation | interval |
|---|---|
| add, sub, mul, div, fma, sqrt | the ends, rounded to nearest: rounding is monotone |
| sum of n, inner product of n | (n - 1) U sum |x|, n U sum |x y|: any order (``enclosure_dot``) |
| dot | fp32 in any order, or FP8 wgmma in bits or in any order (``enclosure_dot``) |
| exp, log | two units of fp32, 0 below -104; log also 2^-22 absolutely, near its zero |
| exp2, log2 | Hopper's MUFU, measured over all inputs; results below 2^-126 may be flushed |
| cast | the cast set: codes from round(lo) to round(hi) |
| scale_down | x / s within the largest quotient that s = amax / 448 allows |
| carry | t - q within max(|t| / 17, 2^-10) and 16, the largest error of a cast |

``order`` says what the kernel is free to do with a contract on codes:

    channels    S and dP run over the channels in the contract's order, so that they are known bit
                for bit; within a window the keys (and in dK and dV the queries) are free
    free        no order is known

In the free form the integer references R and M are only known up to a few units. They scale
everything after them by a power of two, exactly but for underflow and for the argument of ex2; so
one of them is taken, results below 2^-90 are widened by 2^-116 and the arguments by U |x| more.

float64's exp, log, exp2, log2 are taken to be right within 2^-45 (numpy documents 4 ulp). Not
covered: kernels that flush subnormals outside ex2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from dmverify.errors import InputError
from dmverify.spec.arithmetic.enclosure_bookkeeping import Bookkeeping
from dmverify.spec.arithmetic.enclosure_dot import (
    TWO_U64,
    UNDERFLOW_ERROR,
    Sums,
    U,
    fp32_enclosed,
    in_range,
    sums_of,
    wgmma_any_order,
    wgmma_bits,
)
from dmverify.spec.arithmetic.enclosure_ends import (
    any_order,
    corners,
    difference_grain,
    kept_grain,
    logarithm,
    opened,
    points_only,
    scaled,
    shut,
    stretched,
    sum_ends,
    with_grain,
)
from dmverify.spec.arithmetic.enclosure_softmax import (
    at_largest,
    below_maximum,
    exponential,
    share_ends,
    with_largest,
)
from dmverify.spec.arithmetic.floating import ALL_CASTS
from dmverify.spec.arithmetic.interface import Logits
from dmverify.spec.arithmetic.interval import (
    SMALLEST,
    Interval,
    Ternary,
    closed,
    inward,
    opened_where,
    point,
    rounded,
)
from dmverify.spec.case import F64
from dmverify.spec.constants import constant
from dmverify.spec.contracts import Contract, Rows, Windows
from dmverify.spec.formats import E4M3, Element
from dmverify.spec.lemmas import rests_on
from dmverify.spec.namespace import Array

ORDERS = ("channels", "free")
SCALED_FIRST = 2  # dK of a head may be scaled before it is added: a rounding, and what it moves

LOG, EX2, LG2, LG2_NEAR_ONE, NORMAL = (
    float(constant(name))
    for name in ("LOG", "EX2", "LG2_RELATIVE", "LG2_ABSOLUTE", "FP32_SMALLEST_NORMAL")
)
(
    E4M3_RELATIVE,
    E4M3_ABSOLUTE,
    UNSATURATED,
    CODE_MAX,
    REFERENCE_SMALL,
    REFERENCE_QUANTUM,
    REFERENCE_REACH,
    ERROR_MAX,
) = (
    float(constant(name))
    for name in (
        "E4M3_RELATIVE",
        "E4M3_ABSOLUTE",
        "E4M3_UNSATURATED",
        "E4M3_MAX",
        "REFERENCE_SMALL",
        "REFERENCE_QUANTUM",
        "REFERENCE_REACH",
        "E4M3_ERROR_MAX",
    )
)


class Enclosure(Bookkeeping):
    """Intervals; made for one contract, whose schedule says which dot is meant.

    Args:
        contract: Gives the schedule.
        order: ``channels`` or ``free``.
        lengths: Keys and queries that float64's own rounding is counted for, at least, where rows
            are whole: ends then depend on the problem, and not on how operands are padded and cut.

    Raises:
        InputError: For another word.
    """

    name = "enclosure"
    exact_schedule: ClassVar[bool] = False

    def __init__(
        self,
        contract: Contract,
        *,
        order: str = "channels",
        lengths: tuple[int, int] | None = None,
    ) -> None:
        if order not in ORDERS:
            raise InputError(
                f"order={order!r}", rule=f"order is {' or '.join(ORDERS)}", fix="use one of them"
            )
        self.casts = ALL_CASTS
        schedule = contract.schedule
        self._codes = isinstance(schedule, Windows)
        self._free = self._codes and order == "free"
        keys, queries = lengths if lengths and isinstance(schedule, Rows) else (0, 0)
        self._counted = {"channels": 0, "tokens": keys, "heads": queries}

    def array(self, x: Array) -> Interval:
        """Points."""
        return point(x)

    def between(self, low: Array, high: Array) -> Interval:
        """Anything between two numbers; open where one is not finite."""
        return closed(np.asarray(low, np.float64), np.asarray(high, np.float64))

    def mask(self, x: Array) -> Ternary:
        """A decided mask."""
        return Ternary(x, x)

    def float64(self, x: Interval) -> F64:
        """Midpoints."""
        return x.mid

    def ends(self, x: Interval) -> tuple[F64, F64]:
        """Both ends."""
        return x.lo, x.hi

    def add(self, a: Interval, b: Interval) -> Interval:
        """``a + b``, rounded to nearest."""
        lo = a.lo + b.lo
        return self._rounded(lo, lo if points_only(a, b) else a.hi + b.hi)

    def sub(self, a: Interval, b: Interval) -> Interval:
        """``a - b``, rounded to nearest."""
        lo = a.lo - b.hi
        if points_only(a, b):
            return self._rounded(lo, lo)
        return with_grain(self._rounded(lo, a.hi - b.lo), lambda: difference_grain(a, b))

    def mul(self, a: Interval, b: Interval) -> Interval:
        """``a * b``, rounded to nearest; codes x scale lie near what was cast, too."""
        product = self._rounded(*corners(np.multiply, a, b))
        if a.grain is not None or b.grain is not None:
            product = with_grain(product, lambda: a.least * b.least * (1 - 2 * U))
        near = a.near if a.near is not None else b.near
        return product if near is None else product.meet(self._rounded(near.lo, near.hi))

    def div(self, a: Interval, b: Interval) -> Interval:
        """``a / b``, rounded to nearest; open where b may be 0.

        A b from 0 with a grain is a scale: where it is 0 so is all that it scales, and it is not
        used.
        """
        if b.grain is not None:
            b = Interval(np.where(b.lo == 0, b.grain, b.lo), b.hi)
        through = (b.lo <= 0) & (b.hi >= 0)
        lo, hi = corners(np.divide, a, b)
        if through.any():
            lo, hi = np.where(through, -np.inf, lo), np.where(through, np.inf, hi)
        quotient = self._rounded(lo, hi)
        if a.grain is None or not b.known:
            return quotient
        return with_grain(quotient, lambda: kept_grain(a.least / b.magnitude))

    def fma(self, a: Interval, b: Interval, c: Interval) -> Interval:
        """``a * b + c``, rounded once."""
        low, high = corners(np.multiply, a, b)
        if low is high and points_only(c):
            lo, hi = sum_ends(low, c.lo)
            return self._rounded(lo, hi)
        return self._rounded(sum_ends(low, c.lo)[0], sum_ends(high, c.hi)[1])

    def sqrt(self, a: Interval) -> Interval:
        """Square root, rounded to nearest."""
        return self._rounded(np.sqrt(a.lo), np.sqrt(a.hi))

    def exp(self, a: Interval) -> Interval:
        """Natural exponential within two units."""
        return exponential(a)

    def log(self, a: Interval) -> Interval:
        """Natural logarithm within two units (absolute near 1)."""
        return logarithm(np.log, a, LOG, LOG)

    @rests_on("ex2-error", "stale-maximum")
    def exp2(self, a: Interval) -> Interval:
        """``ex2.approx.ftz``, or anything as accurate."""
        more = U * (a.magnitude + REFERENCE_REACH) if self._free else 0.0
        least = REFERENCE_SMALL if self._free else NORMAL
        lo, hi = stretched(np.exp2(a.lo - more), np.exp2(a.hi + more), EX2)
        return shut(a, inward(np.where(lo < least, 0.0, lo), hi + UNDERFLOW_ERROR))

    @rests_on("lg2-error", "lg2-near-one")
    def log2(self, a: Interval) -> Interval:
        """``lg2.approx``, or anything as accurate."""
        reach = REFERENCE_REACH * LG2 if self._free else 0.0
        return logarithm(np.log2, a, LG2, LG2_NEAR_ONE + reach)

    def sum(self, a: Interval, axis: int, *, over: str) -> Interval:
        """Sum in any order."""
        counted = self._counted[over]
        return any_order(a, axis, extra=-1, counted=counted)

    def inner(self, a: Interval, b: Interval, axis: int, *, over: str) -> Interval:
        """Sum of products in any order, rounded or fused."""
        products = Interval(*corners(np.multiply, a, b))
        return any_order(products, axis, extra=0, counted=self._counted[over])

    def max(self, a: Interval, axis: int) -> Interval:
        """Maximum."""
        top = opened(a.lo.max(axis, keepdims=True), a.hi.max(axis, keepdims=True))
        if a.grain is None:
            return top
        return with_grain(top, lambda: a.least.min(axis, keepdims=True))

    def maximum(self, a: Interval, b: Interval) -> Interval:
        """Elementwise maximum."""
        return opened(np.maximum(a.lo, b.lo), np.maximum(a.hi, b.hi))

    def absolute(self, a: Interval) -> Interval:
        """Magnitude."""
        return replace(opened(a.mignitude, a.magnitude), grain=a.grain)

    def negate(self, a: Interval) -> Interval:
        """Sign flipped."""
        return -a

    def dot(self, a: Interval, b: Interval, *, over: str) -> Interval:
        """(M, K) and (N, K) to (M, N)."""
        if not self._codes:
            spare = SCALED_FIRST if over == "heads" else 0
            return fp32_enclosed(sums_of(a, b).counted(self._counted[over]), spare=spare)
        ordered = over == "channels" and not self._free and a.known and b.known
        return wgmma_bits(a, b) if ordered else wgmma_any_order(a, b)

    def enclosed(self, sums: Sums) -> Interval:
        """A dot over the tokens of heads from its sums; for operands that are not codes."""
        return fp32_enclosed(sums.counted(self._counted["heads"]), spare=SCALED_FIRST)

    def allow(self, x: Interval, reach: Interval, *, keep_zero: bool) -> Interval:
        """x, or a number up to ``reach`` away; 0 stays 0 if ``keep_zero``."""
        most = reach.hi
        if keep_zero:
            most = np.where((x.lo == 0) & (x.hi == 0), 0.0, most)
        wide = inward(x.lo - most, x.hi + most)
        return opened_where(x.open, wide.lo, wide.hi)

    def select(self, mask: Ternary, a: Interval, b: Interval) -> Interval:
        """``a`` or ``b``; their hull where the mask is undecided."""
        if mask.sure is mask.possible and a.lo is a.hi and b.lo is b.hi:
            one = np.where(mask.sure, a.lo, b.lo)
            return Interval(one, one)
        lo = np.where(mask.sure, a.lo, np.where(mask.possible, np.minimum(a.lo, b.lo), b.lo))
        hi = np.where(mask.sure, a.hi, np.where(mask.possible, np.maximum(a.hi, b.hi), b.hi))
        grain = a.grain
        if grain is None:
            return opened(lo, hi)
        return with_grain(opened(lo, hi), lambda: np.where(mask.possible, grain, SMALLEST))

    @rests_on("cast-set", "e4m3-monotone")
    def cast(self, a: Interval, fmt: Element, *, site: str, saturate: bool) -> Interval:
        """The cast set: every code from round(lo) to round(hi); open where one may be NaN."""
        lo, hi = (fmt.round(x.astype(np.float32), saturate=saturate) for x in (a.lo, a.hi))
        low = lo.astype(np.float64)
        codes = shut(a, closed(low, low if a.lo is a.hi else hi.astype(np.float64)))
        del lo, hi, low  # arrays of a long row's size
        if a.near is None or fmt is not E4M3:
            return codes
        beyond = ~(a.magnitude < UNSATURATED)
        near = opened_where(beyond, a.near.lo, a.near.hi)
        return Interval(codes.lo, codes.hi, near)

    @rests_on("scale-divide-range", "scale-tiny-overshoot", "e4m3-double-rounding")
    def scale_down(self, x: Interval, scale: Interval, fmt: Element) -> Interval:
        """x / scale for scale = amax / 448 over a tile that x is in (scale-divide-range)."""
        return scaled(self.div(x, scale), x, scale, fmt)

    def of_codes(self, x: Interval, scale: Interval, fmt: Element) -> Interval:
        """The intervals themselves: dots on codes have codes, and others no exponents."""
        return x

    @rests_on("carry-exact", "e4m3-error", "e4m3-error-absolute")
    def carry(self, t: Interval, q: Interval) -> Interval:
        """t - q, exact: the error of a cast."""
        size = np.minimum(t.magnitude, UNSATURATED)
        most = np.minimum(size * E4M3_RELATIVE * (1 + TWO_U64), ERROR_MAX)
        most = np.maximum(most, E4M3_ABSOLUTE)
        most = np.maximum(most, t.magnitude - CODE_MAX)
        return self.sub(t, q).meet(Interval(-most, most))

    def concatenate(self, parts: Sequence[Interval], axis: int) -> Interval:
        """Joined along an axis."""
        lo = np.concatenate([x.lo for x in parts], axis)
        known = all(x.lo is x.hi for x in parts)
        said = [x.tall for x in parts if x.tall is not None]
        tall = max(said) if len(said) == len(parts) else None
        hi = lo if known else np.concatenate([x.hi for x in parts], axis)
        return Interval(lo, hi, tall=tall)

    def broadcast(self, a: Interval, shape: tuple[int, ...]) -> Interval:
        """Repeated along axes of length 1 to a shape."""
        return a.map(lambda x: np.broadcast_to(x, shape))

    def ln2(self) -> Interval:
        """ln 2, rounded."""
        return rounded(*[np.full((1, 1), np.log(2.0))] * 2)

    def per_ln2(self, x: float) -> Interval:
        """``x log2 e``, rounded once."""
        return rounded(*[np.full((1, 1), x * np.log2(np.e))] * 2)

    def any_of(self, known: Any, allowed: Callable[[], Any]) -> Any:
        """All that the contract allows."""
        return allowed()

    def within(self, x: Interval, mass: Interval) -> Interval:
        """Open where a partial sum may overflow: ``mass`` bounds the sum of the magnitudes."""
        return in_range(x, mass.hi)

    def below_maximum(self, row: Logits) -> Interval:
        """Not above 0; and 0 where x is the maximum itself, above all others."""
        return below_maximum(self.sub(row.x, row.top), row.x, row.seen)

    def with_largest(self, total: Interval) -> Interval:
        """At least the exponential of 0, or 448 times the basis made of it."""
        return with_largest(total)

    def share(self, e: Interval, total: Interval, row: Logits) -> Interval:
        """e / (e + the others): the reference cancels, and e stands on both sides."""
        ends = share_ends(row.x, row.top, row.seen, counted=self._counted["tokens"])
        return self.div(e, total).meet(self._rounded(*ends))

    def reference(self, a: Interval) -> Interval:
        """The number itself."""
        return a

    def at_largest(self, x: Interval, windows: Interval, keys: Interval) -> Interval:
        """Hull of ``x`` over every key that may be the one."""
        return at_largest(x, windows, keys)

    def _rounded(self, lo: F64, hi: F64) -> Interval:
        if not self._free:
            return rounded(lo, hi)
        small = (np.abs(lo) < REFERENCE_SMALL) & (np.abs(hi) < REFERENCE_SMALL)
        small = small & ((lo != 0) | (hi != 0))
        if not small.any():
            return rounded(lo, hi)
        slack = np.where(small, REFERENCE_QUANTUM, 0.0)
        return rounded(lo - slack, hi + slack)
