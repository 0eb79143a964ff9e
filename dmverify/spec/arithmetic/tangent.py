"""First-order errors: every number carries, to first order, its error from rounding.

A number is a value, as in ``Double`` without casts, and a slope: its error where each cast rounds
by chance. A cast of x leaves the value and adds to the slope

    u n,   u = min(unit(x), |x| sqrt(12)),   n uniform on [-1/2, 1/2],

unit(x) the distance of the format's numbers at x; the minimum because what is nearer to 0 than to
its first number loses itself and no more. An x that the format has is left alone: the largest of a
tile is 448 of its scale, whatever came before. Every other operation propagates slopes by its
derivative, so errors that come from one rounding stay together: a row of P sums to 1, a scale that
is divided by cancels. What is rounded in float32 adds nothing, as it is 2^-20 of a cast.

Not covered: saturation, and second-order terms: an error of a logit near 1 has no first order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from dmverify.spec import exponents
from dmverify.spec.arithmetic.floating import ALL_CASTS
from dmverify.spec.arithmetic.single_valued import SingleValued
from dmverify.spec.formats import FP32, Element, IntegerFormat
from dmverify.spec.namespace import Array

F64: TypeAlias = npt.NDArray[np.float64]
SAME = 2.0**-40  # of a number: what its quotient by a scale may be off in float64
SPREAD = math.sqrt(12.0)  # of a uniform number's standard deviation into its width


@dataclass(frozen=True, eq=False, slots=True)
class Dual:
    """A value and its slope, of one shape."""

    value: F64
    slope: F64

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of both."""
        return self.value.shape

    def __getitem__(self, key: Any) -> Dual:
        return Dual(self.value[key], self.slope[key])

    def __sub__(self, other: Dual) -> Dual:
        return Dual(self.value - other.value, self.slope - other.slope)

    def reshape(self, *shape: Any) -> Dual:
        """Reshaped."""
        return Dual(self.value.reshape(*shape), self.slope.reshape(*shape))

    def swapaxes(self, first: int, second: int) -> Dual:
        """The numbers with two axes exchanged."""
        return Dual(self.value.swapaxes(first, second), self.slope.swapaxes(first, second))


class Tangent(SingleValued):
    """See the module.

    Args:
        seed: Seed of the random roundings.

    Attributes:
        overflows: Whether a cast met a number beyond its format.
        tally: By operand or cast site, the sums of squares of what casts do to the values
            themselves and of what chance would do.
    """

    name: ClassVar[str] = "tangent"
    casts: frozenset[str] = ALL_CASTS
    exact_schedule: ClassVar[bool] = False

    def __init__(self, seed: int = 0) -> None:
        self.overflows = False
        self.tally: dict[str, tuple[float, float]] = {}
        self._variances, self._rows = 0.0, 0
        self._chance = np.random.Generator(np.random.Philox(seed))

    def array(self, x: Array) -> Dual:
        """A float32 array as numbers without error."""
        return constant(np.asarray(x, np.float64))

    def rounded(self, value: F64, unit: F64, *, site: str = "", to: F64 | None = None) -> Dual:
        """What a cast with units of this size makes of a value, and ``to`` at the value itself."""
        width = np.minimum(unit, SPREAD * np.abs(value))
        if to is not None:
            width = np.where(np.abs(to - value) > SAME * np.abs(value), width, 0.0)
            actual, chance = self.tally.get(site, (0.0, 0.0))
            done, due = float(np.sum((to - value) ** 2)), float(np.sum(width**2)) / 12
            self.tally[site] = actual + done, chance + due
        return Dual(value, width * (self._chance.random(value.shape) - 0.5))

    @property
    def second(self) -> float:
        """Root mean square, over rows, of half the variance of the logits' errors under P.

        It is what the logarithm of a sum of exponentials errs by in second order.
        """
        return math.sqrt(self._variances / self._rows) / 2 if self._rows else 0.0

    def _weigh(self, e: F64, error: F64) -> None:
        """Takes in rows of exponentials (..., N) and the errors of their arguments, in nats."""
        if e.ndim < 2 or e.shape[-1] == 1:  # of maxima or sums
            return
        e, error = np.where(e > 0, (e, error), 0.0)
        total = np.maximum(e.sum(-1, keepdims=True), np.finfo(np.float64).tiny)
        mean = (e * error).sum(-1, keepdims=True) / total
        variance = (e * (error - mean) ** 2).sum(-1) / total[..., 0]
        live = e.max(-1) > 0
        self._variances += float(np.sum(variance[live] ** 2))
        self._rows += int(live.sum())

    def mask(self, x: Array) -> Array:
        """The mask itself."""
        return x

    def float64(self, x: Dual) -> F64:
        """The value."""
        return x.value

    def add(self, a: Dual, b: Dual) -> Dual:
        """Sum."""
        return Dual(a.value + b.value, a.slope + b.slope)

    def mul(self, a: Dual, b: Dual) -> Dual:
        """Product."""
        return Dual(a.value * b.value, a.slope * b.value + a.value * b.slope)

    def div(self, a: Dual, b: Dual) -> Dual:
        """Quotient."""
        value = a.value / b.value
        return Dual(value, (a.slope - value * b.slope) / b.value)

    def fma(self, a: Dual, b: Dual, c: Dual) -> Dual:
        """Product and sum."""
        return self.add(self.mul(a, b), c)

    def sqrt(self, a: Dual) -> Dual:
        """Square root; that of 0 has no slope."""
        root = np.sqrt(a.value)
        return Dual(root, np.where(root > 0, a.slope / (2 * root), 0.0))

    def exp(self, a: Dual) -> Dual:
        """Exponential."""
        value = np.exp(a.value)
        self._weigh(value, a.slope)
        return Dual(value, np.where(value > 0, value * a.slope, 0.0))

    def log(self, a: Dual) -> Dual:
        """Logarithm."""
        return Dual(np.log(a.value), a.slope / a.value)

    def exp2(self, a: Dual) -> Dual:
        """Power of 2."""
        value = np.exp2(a.value)
        self._weigh(value, math.log(2.0) * a.slope)
        return Dual(value, np.where(value > 0, math.log(2.0) * value * a.slope, 0.0))

    def log2(self, a: Dual) -> Dual:
        """Base-2 logarithm."""
        return Dual(np.log2(a.value), a.slope / (a.value * math.log(2.0)))

    def sum(self, a: Dual, axis: int, *, over: str) -> Dual:
        """Sum along an axis."""
        return Dual(a.value.sum(axis, keepdims=True), a.slope.sum(axis, keepdims=True))

    def inner(self, a: Dual, b: Dual, axis: int, *, over: str) -> Dual:
        """Sum of products along an axis."""
        return self.sum(self.mul(a, b), axis, over=over)

    def max(self, a: Dual, axis: int) -> Dual:
        """Maximum along an axis."""
        at = np.expand_dims(a.value.argmax(axis), axis)
        value, slope = (np.take_along_axis(x, at, axis) for x in (a.value, a.slope))
        return Dual(value, slope)

    def maximum(self, a: Dual, b: Dual) -> Dual:
        """Elementwise maximum."""
        return self.select(a.value >= b.value, a, b)

    def absolute(self, a: Dual) -> Dual:
        """Magnitude."""
        return Dual(np.abs(a.value), np.sign(a.value) * a.slope)

    def negate(self, a: Dual) -> Dual:
        """Sign flipped."""
        return Dual(-a.value, -a.slope)

    def dot(self, a: Dual, b: Dual, *, over: str) -> Dual:
        """(M, K) and (N, K) to (M, N)."""
        left, right = b.value.swapaxes(-1, -2), b.slope.swapaxes(-1, -2)
        return Dual(a.value @ left, a.slope @ left + a.value @ right)

    def select(self, mask: Array, a: Dual, b: Dual) -> Dual:
        """``a`` where the mask is set, else ``b``."""
        return Dual(np.where(mask, a.value, b.value), np.where(mask, a.slope, b.slope))

    def cast(self, a: Dual, fmt: Element, *, site: str, saturate: bool) -> Dual:
        """The value, and the slope with this rounding's."""
        width = unit(a.value, fmt)
        self.overflows |= bool((np.abs(a.value) > fmt.max_finite + width).any())
        to = fmt.round(a.value.astype(np.float32), saturate=saturate).astype(np.float64)
        rounding = self.rounded(a.value, width, site=site, to=to)
        return Dual(a.value, a.slope + rounding.slope)

    def scale_down(self, x: Dual, scale: Dual, fmt: Element) -> Dual:
        """Quotient; a scale that is subnormal in float32 makes codes that overflow."""
        least = FP32.min_subnormal / (2 * fmt.max_finite)  # what it is of is 0 there
        self.overflows |= bool(((scale.value > least) & (scale.value < FP32.min_normal)).any())
        return self.div(x, scale)

    def carry(self, t: Dual, q: Dual) -> Dual:
        """Difference."""
        return t - q

    def concatenate(self, parts: Sequence[Dual], axis: int) -> Dual:
        """Joined along an axis."""
        value, slope = ([getattr(x, name) for x in parts] for name in ("value", "slope"))
        return Dual(np.concatenate(value, axis), np.concatenate(slope, axis))

    def ln2(self) -> Dual:
        """ln 2."""
        return constant(np.full((1, 1), math.log(2.0)))

    def per_ln2(self, x: float) -> Dual:
        """``x log2 e``."""
        return constant(np.full((1, 1), x * math.log2(math.e)))

    def broadcast(self, a: Dual, shape: tuple[int, ...]) -> Dual:
        """Repeated along axes of length 1."""
        return Dual(np.broadcast_to(a.value, shape), np.broadcast_to(a.slope, shape))

    def ceil(self, a: Dual) -> Dual:
        """A step: without slope."""
        return constant(np.ceil(a.value))

    def ceil_log2(self, a: Dual) -> Dual:
        """A step: without slope."""
        return constant(exponents.ceil_log2(a.value).astype(np.float64))

    def max_shift_to_448(self, a: Dual, *, limit: int = exponents.LARGEST_FIT) -> Dual:
        """A step: without slope."""
        return constant(exponents.max_shift_to_448(a.value, limit=limit).astype(np.float64))

    def pow2(self, n: Dual) -> Dual:
        """2 to an integer power."""
        return constant(np.exp2(n.value))

    def greater(self, a: Dual, b: Dual) -> Array:
        """Where the value is greater."""
        return a.value > b.value

    def reference(self, a: Dual) -> Dual:
        """The number itself."""
        return a

    def at_largest(self, x: Dual, windows: Dual, keys: Dual) -> Dual:
        """x at the first key of largest ``keys`` in the first window of largest ``windows``."""
        rows = np.arange(x.shape[0])
        window = np.argmax(windows.value[:, :, 0], 1)
        return x[rows, window, np.argmax(keys.value[rows, window], 1)][:, None]


def constant(x: F64) -> Dual:
    """A value without error."""
    return Dual(x, np.zeros(x.shape))


def unit(x: F64, fmt: Element) -> F64:
    """The distance of a format's numbers at x, its subnormals' below the least normal one."""
    if isinstance(fmt, IntegerFormat):
        return np.ones_like(x)
    binade = np.frexp(x)[1] - 1
    least = int(np.frexp(fmt.min_normal)[1]) - 1
    found: F64 = np.ldexp(1.0, np.maximum(binade, least) - fmt.mantissa_bits)
    return found
