"""How far a conforming kernel may be: every number is an interval that holds what it can compute.

The steps are the same as everywhere; each operation returns an interval that contains the result
of every kernel that obeys the contract, whatever it does where the contract leaves it free:

| operation | error that is added to the real interval |
|---|---|
| add, sub, mul, div, fma, sqrt | u m + eta: one rounding to nearest; m the largest magnitude |
| sum of n | (n - 1) u sum m: any order |
| dot of K, fp32 | K u sum m_a m_b: any order, products rounded or fused |
| dot of K, wgmma | L (33 q + 2^-13 N), L = K / 32 instructions, N = sum m_a m_b, q = 2^(E - 13) |
| exp, log | 2^-22 of the result: two units of fp32; log also 2^-22 of 1 near its zero |
| exp2, log2 | 2^-22.71 and 2^-22 (Hopper's MUFU, measured over all 2^32 inputs), 2^-126 flush |
| cast | none: the cast set [round(lo), round(hi)], rounding being monotone |

u = 2^-24, eta = 2^-150 (gradual underflow). Sources: any-order sums and dots: Jeannerod and Rump,
SIAM J. Matrix Anal. Appl. 34 (2013); wgmma: the instruction model in ``dmverify.spec.hopper``.
The ends are float64; their own rounding is covered by enlarging every added error by 1 + 2^-16,
which is more than K 2^-53 / 2^-24 for K up to 2^13 and is asserted for longer dots.

References: a kernel's own row maximum m' differs a little from the midpoint m that is used here.
With f = exp(m - m') its e, l, bases and unnormalised O are f times numbers that this arithmetic
encloses, since every operation on them is homogeneous and errs relatively; f cancels in e /
basis, e / l, O / l and in m' + log(f l). Powers of two (R, M) are the same with exact f.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from dmverify.errors import InputError
from dmverify.spec.arithmetic.floating import (
    ALL_CASTS,
    LARGEST_EXPONENT,
    LARGEST_FIT,
    LEAST_EXPONENT,
)
from dmverify.spec.arithmetic.interval import Interval, Ternary, point
from dmverify.spec.case import F64
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import FloatFormat
from dmverify.spec.namespace import Array

U = 2.0**-24
ETA = 2.0**-150
FLUSH = 2.0**-126
FUNCTION = 2.0**-22
EX2 = 2.0**-22.7
SLACK = 1.0 + 2.0**-16
LONGEST_DOT = 2**20  # keeps K 2^-53 below 2^-16 of the fp32 term K 2^-24
WGMMA_TERMS = 33
WGMMA_K = 32
WGMMA_FRACTION = 2.0**-13


class Enclosure:
    """Intervals; made for one contract, whose operand form says which dot is meant."""

    name = "enclosure"
    exact_schedule: ClassVar[bool] = False

    def __init__(self, contract: Contract) -> None:
        self.casts = ALL_CASTS
        self._dot_error = _wgmma_error if contract.operand_form == "codes" else _fp32_error

    def array(self, x: Array) -> Interval:
        """Points."""
        return point(x)

    def mask(self, x: Array) -> Ternary:
        """A decided mask."""
        return Ternary(x, x)

    def float64(self, x: Interval) -> F64:
        """Midpoints."""
        return x.mid

    def radius(self, x: Interval) -> F64:
        """Radii that reach both ends from the midpoint."""
        return x.radius

    def add(self, a: Interval, b: Interval) -> Interval:
        """``a + b``, rounded to nearest."""
        return _rounded(a.lo + b.lo, a.hi + b.hi)

    def sub(self, a: Interval, b: Interval) -> Interval:
        """``a - b``, rounded to nearest."""
        return _rounded(a.lo - b.hi, a.hi - b.lo)

    def mul(self, a: Interval, b: Interval) -> Interval:
        """``a * b``, rounded to nearest."""
        return _rounded(*_products(a, b))

    def div(self, a: Interval, b: Interval) -> Interval:
        """``a / b``, rounded to nearest; unbounded where b may be 0."""
        through = (b.lo <= 0) & (b.hi >= 0)
        lo, hi = _corners(np.divide, a, b)
        return _rounded(np.where(through, -np.inf, lo), np.where(through, np.inf, hi))

    def fma(self, a: Interval, b: Interval, c: Interval) -> Interval:
        """``a * b + c``, rounded once."""
        lo, hi = _products(a, b)
        return _rounded(lo + c.lo, hi + c.hi)

    def sqrt(self, a: Interval) -> Interval:
        """Square root, rounded to nearest."""
        return _rounded(np.sqrt(a.lo), np.sqrt(a.hi))

    def exp(self, a: Interval) -> Interval:
        """Natural exponential within two units."""
        return _widened(np.exp(a.lo), np.exp(a.hi), FUNCTION, ETA)

    def log(self, a: Interval) -> Interval:
        """Natural logarithm within two units (absolute near 1)."""
        return _widened(np.log(a.lo), np.log(a.hi), FUNCTION, FUNCTION)

    def exp2(self, a: Interval) -> Interval:
        """``ex2.approx.ftz``."""
        return _widened(np.exp2(a.lo), np.exp2(a.hi), EX2, FLUSH)

    def log2(self, a: Interval) -> Interval:
        """``lg2.approx``."""
        return _widened(np.log2(a.lo), np.log2(a.hi), FUNCTION, FUNCTION)

    def sum(self, a: Interval, axis: int) -> Interval:
        """Sum in any order."""
        lo, hi, size = (x.sum(axis, keepdims=True) for x in (a.lo, a.hi, a.magnitude))
        return _spread(lo, hi, max(a.shape[axis] - 1, 1) * U * size)

    def max(self, a: Interval, axis: int) -> Interval:
        """Maximum."""
        return Interval(a.lo.max(axis, keepdims=True), a.hi.max(axis, keepdims=True))

    def maximum(self, a: Interval, b: Interval) -> Interval:
        """Elementwise maximum."""
        return Interval(np.maximum(a.lo, b.lo), np.maximum(a.hi, b.hi))

    def absolute(self, a: Interval) -> Interval:
        """Magnitude."""
        low = np.where((a.lo <= 0) & (a.hi >= 0), 0.0, np.minimum(np.abs(a.lo), np.abs(a.hi)))
        return Interval(low, a.magnitude)

    def negate(self, a: Interval) -> Interval:
        """Sign flipped."""
        return -a

    def dot(self, a: Interval, b: Interval) -> Interval:
        """Dots in any order, by midpoints and radii."""
        if a.shape[-1] > LONGEST_DOT:
            raise InputError(
                f"a dot of {a.shape[-1]} terms",
                rule=f"the slack of float64 ends is proved up to {LONGEST_DOT} terms",
                fix="split the problem",
            )
        mid = a.mid @ b.mid.T
        radius = np.abs(a.mid) @ b.radius.T + a.radius @ b.magnitude.T
        size = a.magnitude @ b.magnitude.T
        return _spread(mid - radius, mid + radius, self._dot_error(a, b, size) + 2.0**-40 * size)

    def select(self, mask: Ternary, a: Interval, b: Interval) -> Interval:
        """``a`` or ``b``; their hull where the mask is undecided."""
        lo = np.where(mask.sure, a.lo, np.where(mask.possible, np.minimum(a.lo, b.lo), b.lo))
        hi = np.where(mask.sure, a.hi, np.where(mask.possible, np.maximum(a.hi, b.hi), b.hi))
        return Interval(lo, hi)

    def cast(self, a: Interval, fmt: FloatFormat, *, site: str, saturate: bool) -> Interval:
        """The cast set's hull: from round(least fp32 >= lo) to round(largest fp32 <= hi)."""
        lo, hi = (_inward(a.lo, np.inf), _inward(a.hi, -np.inf))
        ends = (fmt.round(x, saturate=saturate).astype(np.float64) for x in (lo, hi))
        return Interval(*ends)

    def concatenate(self, parts: Sequence[Interval], axis: int) -> Interval:
        """Joined along an axis."""
        return Interval(
            np.concatenate([x.lo for x in parts], axis), np.concatenate([x.hi for x in parts], axis)
        )

    def broadcast(self, a: Interval, shape: tuple[int, ...]) -> Interval:
        """Repeated along axes of length 1 to a shape."""
        return Interval(np.broadcast_to(a.lo, shape), np.broadcast_to(a.hi, shape))

    def ln2(self) -> Interval:
        """ln 2, rounded."""
        return _rounded(np.full((1, 1), np.log(2.0)), np.full((1, 1), np.log(2.0)))

    def per_ln2(self, x: float) -> Interval:
        """``x log2 e``, rounded."""
        value = np.full((1, 1), x * np.log2(np.e))
        return _rounded(value, value)

    def ceil(self, a: Interval) -> Interval:
        """The midpoint's: a reference is an exact power of two whatever it is."""
        return point(np.ceil(a.mid))

    def binade(self, a: Interval) -> Interval:
        """Both ends' exponents: the cast's grid depends on the choice."""
        return Interval(_binade(a.lo), _binade(a.hi))

    def fit(self, a: Interval) -> Interval:
        """Both ends' exponents: the cast's grid depends on the choice."""
        least, most = _fit(a.hi), _fit(a.lo)
        return Interval(np.minimum(least, most), np.maximum(least, most))

    def pow2(self, n: Interval) -> Interval:
        """2 to an integer power."""
        return Interval(np.exp2(n.lo), np.exp2(n.hi))

    def greater(self, a: Interval, b: Interval) -> Ternary:
        """A mask that may be undecided."""
        return Ternary(a.lo > b.hi, a.hi > b.lo)

    def reference(self, a: Interval) -> Interval:
        """The midpoint: e, l and O scale with exp of it alike, and it cancels (see above)."""
        return point(a.mid)

    def at_largest(self, x: Interval, windows: Interval, keys: Interval) -> Interval:
        """Hull of ``x`` over every key that may be the one."""
        chosen = windows.hi >= windows.lo.max(1, keepdims=True)
        near = keys.hi >= keys.lo.max(2, keepdims=True)
        wanted = near & chosen & (keys.hi > -np.inf)
        lo = np.where(wanted, x.lo, np.inf).min((1, 2))[:, None]
        hi = np.where(wanted, x.hi, -np.inf).max((1, 2))[:, None]
        none = ~wanted.any((1, 2))[:, None]
        return Interval(np.where(none, 0.0, lo), np.where(none, 0.0, hi))


def _corners(op: Callable[[F64, F64], F64], a: Interval, b: Interval) -> tuple[F64, F64]:
    values = [op(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return np.minimum.reduce(values), np.maximum.reduce(values)


def _products(a: Interval, b: Interval) -> tuple[F64, F64]:
    return _corners(np.multiply, a, b)


def _rounded(lo: F64, hi: F64) -> Interval:
    """One rounding to nearest in fp32. A result that is exactly 0 stays 0."""
    return _widened(lo, hi, U, ETA)


def _widened(lo: F64, hi: F64, relative: float, absolute: float) -> Interval:
    size = np.maximum(np.abs(lo), np.abs(hi))
    error = np.where(size == 0, 0.0 if absolute <= ETA else absolute, relative * size + absolute)
    return _spread(lo, hi, error)


def _spread(lo: F64, hi: F64, error: F64) -> Interval:
    return Interval(np.asarray(lo - SLACK * error), np.asarray(hi + SLACK * error))


def _fp32_error(a: Interval, b: Interval, size: F64) -> F64:
    terms = a.shape[-1]
    return np.asarray(terms * (U * size + ETA * (size > 0)))


def _wgmma_error(a: Interval, b: Interval, size: F64) -> F64:
    """Chained wgmma: each instruction loses 33 terms below q, then 2^-13 of its result."""
    steps = -(-a.shape[-1] // WGMMA_K)
    row, column = (2.0 ** _exponent(x.magnitude.max(-1)) for x in (a, b))
    largest = np.maximum(row[..., :, None] * column[None, :], size)
    return np.asarray(steps * WGMMA_FRACTION * (WGMMA_TERMS * largest + size) * (size > 0))


def _exponent(x: F64) -> F64:
    """Exponent of an E4M3 magnitude, the unnormalised one (-6) for subnormals."""
    return np.maximum(np.frexp(x)[1] - 1.0, -6.0)


def _inward(x: F64, towards: float) -> Array:
    """The nearest float32 not outside ``x`` on the side of ``towards``."""
    single = x.astype(np.float32)
    outside = single < x if towards > 0 else single > x
    return np.where(outside, np.nextafter(single, np.float32(towards)), single)


def _binade(x: F64) -> F64:
    mantissa, exponent = np.frexp(x)
    n = np.clip(exponent - (mantissa == 0.5), LEAST_EXPONENT, LARGEST_EXPONENT)
    return np.where(x == 0, 0.0, n).astype(np.float64)


def _fit(x: F64) -> F64:
    mantissa, exponent = np.frexp(x)
    n = np.minimum(9 - exponent - (mantissa > 0.875), LARGEST_FIT)
    return np.where(x == 0, 0.0, n).astype(np.float64)
