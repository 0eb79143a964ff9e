"""Exact reals as Arb balls: every result encloses the true value of the steps.

Operations cannot round visibly: at ``precision`` bits a ball's radius stays far below anything
that the checks look at, and it is carried along, so a result is a certificate. Casts, where
switched on, round the ball's exact value and fail if the ball does not decide (more precision is
the fix).

Source: F. Johansson, "Arb: efficient arbitrary-precision midpoint-radius interval arithmetic",
IEEE Transactions on Computers 66 (2017), through python-flint. mpmath's ``iv`` is not used: its
``exp`` can return an upper end below the true value (mpmath/mpmath#1181).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from dmverify.errors import DependencyError, InputError
from dmverify.spec import exponents
from dmverify.spec.arithmetic.single_valued import SingleValued
from dmverify.spec.formats import Element
from dmverify.spec.namespace import Array

flint: Any  # python-flint ships no types
try:
    import flint
except ImportError:  # GPU machines often lack it, and everything but enclosures works there
    flint = None

DEFAULT_PRECISION = 128
_ULP = float(np.finfo(np.float64).eps)


def _elementwise(function: Callable[..., Any], arity: int = 1) -> Callable[..., Array]:
    ufunc: Callable[..., Array] = np.frompyfunc(function, arity, 1)
    return ufunc


_ARB = _elementwise(lambda x: flint.arb(x))
_EXP = _elementwise(lambda x: x.exp())
_LOG = _elementwise(lambda x: x.log())
_SQRT = _elementwise(lambda x: x.sqrt())
_ABS = _elementwise(abs)
_POW2 = _elementwise(lambda n: flint.arb(2) ** int(n))
_MAX = _elementwise(lambda a, b: a.max(b), 2)
_MID = _elementwise(lambda x: float(x.mid()))
_RADIUS = _elementwise(lambda x: float(x.rad()))


class Exact(SingleValued):
    """Arb balls; ``casts`` chooses which cast sites round (none: attention on exact operands).

    Args:
        casts: Subset of ``operands``, ``p``, ``ds``, ``o``. ``operands`` alone is the reference on
            dequantised operands; the empty set is the reference on the original BF16 inputs.
        precision: Working precision in bits.

    Raises:
        DependencyError: If python-flint is not installed.
    """

    name = "exact"
    exact_schedule: ClassVar[bool] = False

    def __init__(
        self, casts: frozenset[str] = frozenset(), *, precision: int = DEFAULT_PRECISION
    ) -> None:
        if flint is None:
            raise DependencyError(
                "no module named flint",
                rule="exact arithmetic runs on Arb balls of python-flint",
                fix="pip install python-flint",
            )
        self.casts = casts
        self.precision = precision

    @contextmanager
    def working_precision(self) -> Iterator[None]:
        """Sets the precision of all balls made inside the block."""
        before, flint.ctx.prec = flint.ctx.prec, self.precision
        try:
            yield
        finally:
            flint.ctx.prec = before

    def array(self, x: Array) -> Array:
        """Exact balls of float values."""
        return _objects(_ARB(np.asarray(x, dtype=np.float64).astype(object)))

    def mask(self, x: Array) -> Array:
        """The mask itself."""
        return x

    def float64(self, x: Array) -> Array:
        """Midpoints, rounded to float64."""
        return _MID(x).astype(np.float64)

    def ends(self, x: Array) -> tuple[Array, Array]:
        """Ends of the balls as float64, rounded outward."""
        mid, radius = self.float64(x), _RADIUS(x).astype(np.float64)
        reach = radius * (1 + _ULP) + np.abs(mid) * _ULP  # the midpoint itself has rounded
        return np.nextafter(mid - reach, -np.inf), np.nextafter(mid + reach, np.inf)

    def sqrt(self, a: Array) -> Array:
        """Square root."""
        return _objects(_SQRT(a))

    def exp(self, a: Array) -> Array:
        """Natural exponential."""
        return _objects(_EXP(a))

    def log(self, a: Array) -> Array:
        """Natural logarithm."""
        return _objects(_LOG(a))

    def exp2(self, a: Array) -> Array:
        """2 to the power ``a``."""
        return self.exp(a * flint.arb.const_log2())

    def log2(self, a: Array) -> Array:
        """Base-2 logarithm."""
        return self.log(a) / flint.arb.const_log2()

    def sum(self, a: Array, axis: int, *, over: str) -> Array:
        """Sum along an axis."""
        return a.sum(axis=axis, keepdims=True)

    def inner(self, a: Array, b: Array, axis: int, *, over: str) -> Array:
        """Sum of products along an axis."""
        return self.sum(a * b, axis, over=over)

    def max(self, a: Array, axis: int) -> Array:
        """Enclosure of the maximum along an axis."""
        return _MAX.reduce(a, axis=axis, keepdims=True)  # type: ignore[attr-defined]

    def maximum(self, a: Array, b: Array) -> Array:
        """Enclosure of the elementwise maximum."""
        return _objects(_MAX(a, b))

    def absolute(self, a: Array) -> Array:
        """Magnitude."""
        return _objects(_ABS(a))

    def negate(self, a: Array) -> Array:
        """Sign flipped."""
        return -a

    def dot(self, a: Array, b: Array, *, over: str) -> Array:
        """A matrix product of balls."""
        if 0 in a.shape or 0 in b.shape:
            return self.array(np.zeros((a.shape[0], b.shape[0])))
        product = flint.arb_mat(a.tolist()) * flint.arb_mat(b.T.tolist())
        return np.array(product.tolist(), dtype=object)

    def select(self, mask: Array, a: Array, b: Array) -> Array:
        """``a`` where the mask is set, else ``b``."""
        return np.where(mask, a, b)

    def cast(self, a: Array, fmt: Element, *, site: str, saturate: bool) -> Array:
        """The format's number that the exact value rounds to, if the site is active.

        Raises:
            InputError: If a ball straddles a rounding boundary.
        """
        if site not in self.casts:
            return a
        low, high = (fmt.round(_ends(a, side), saturate=saturate) for side in (-1, 1))
        if not np.array_equal(low, high, equal_nan=True):
            raise InputError(
                f"a ball of relative radius about 2^-{self.precision} on a rounding boundary",
                rule="a cast needs to know which way the exact value rounds",
                fix="raise the precision, or treat the element as ambiguous",
            )
        return self.array(low)

    def scale_down(self, x: Array, scale: Array, fmt: Element) -> Array:
        """``x / scale``."""
        return x / scale

    def carry(self, t: Array, q: Array) -> Array:
        """``t - q``."""
        return t - q

    def concatenate(self, parts: Sequence[Array], axis: int) -> Array:
        """Joined along an axis."""
        return np.concatenate(parts, axis)

    def ln2(self) -> Array:
        """An enclosure of ln 2."""
        return np.array([[flint.arb.const_log2()]], dtype=object)

    def per_ln2(self, x: float) -> Array:
        """An enclosure of ``x / ln 2``."""
        return np.array([[flint.arb(x) / flint.arb.const_log2()]], dtype=object)

    def broadcast(self, a: Array, shape: tuple[int, ...]) -> Array:
        """Repeated along axes of length 1 to a shape."""
        return np.broadcast_to(a, shape)

    def ceil(self, a: Array) -> Array:
        """Least integer not below the midpoint."""
        return self.array(np.ceil(self.float64(a)))

    def ceil_log2(self, a: Array) -> Array:
        """Integer exponents from midpoints."""
        return exponents.ceil_log2(self.float64(a))

    def max_shift_to_448(self, a: Array, *, limit: int = exponents.LARGEST_FIT) -> Array:
        """Integer exponents from midpoints."""
        return exponents.max_shift_to_448(self.float64(a), limit=limit)

    def pow2(self, n: Array) -> Array:
        """2 to an integer power, exact."""
        whole = n if n.dtype != object else self.float64(n)
        return _objects(_POW2(whole.astype(object)))

    def greater(self, a: Array, b: Array) -> Array:
        """Comparison of midpoints."""
        return self.float64(a) > self.float64(b)

    def reference(self, a: Array) -> Array:
        """The number itself."""
        return a

    def at_largest(self, x: Array, windows: Array, keys: Array) -> Array:
        """x at the key that the midpoints choose."""
        rows = np.arange(x.shape[0])
        window = np.argmax(self.float64(windows)[:, :, 0], 1)
        key = np.argmax(self.float64(keys)[rows, window], 1)
        return x[rows, window, key][:, None]


def _objects(x: Any) -> Array:
    """An object array even where numpy unwraps a single element."""
    return x if isinstance(x, np.ndarray) else np.array(x, dtype=object)


def _ends(a: Array, side: int) -> Array:
    """An end of each ball as a float32 that rounds to a format exactly as the end does.

    Rounding twice is harmless when the first rounding is to odd: float32 keeps at least two more
    bits than any format cast to here.
    """
    return np.vectorize(lambda x: _odd_float32(x, side), otypes=[np.float32])(a)


def _odd_float32(x: Any, side: int) -> np.float32:
    end = x.lower() if side < 0 else x.upper()
    near = float(end.mid())
    single = np.float32(near)
    exact = end.mid() - flint.arb(float(single))
    if exact == 0 or not np.isfinite(single) or int(single.view(np.uint32)) & 1:
        return single
    towards = np.float32(np.inf if exact > 0 else -np.inf)
    return np.float32(np.nextafter(single, towards))
