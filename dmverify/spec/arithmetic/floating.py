"""What the floating-point interpretations share: operations that a namespace spells for them.

``Double`` computes in float64 with every cast off, so that the steps must equal ordinary
attention. ``Single`` computes in float32 with the casts on, sums in whatever order the library
takes: the simulation style of the published figures. ``Bits`` (see ``bits.py``) replaces each
rounding operation with the named Hopper instruction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from dmverify.spec import exponents
from dmverify.spec.arithmetic.single_valued import SingleValued
from dmverify.spec.formats import Element
from dmverify.spec.namespace import Array, namespace_of

ALL_CASTS = frozenset({"operands", "p", "ds", "o"})


class Floating(SingleValued):
    """Operations over an array namespace (numpy, or torch where the subclass allows it)."""

    name: ClassVar[str]
    casts: frozenset[str]
    exact_schedule: ClassVar[bool] = False
    dtype: ClassVar[str]

    def array(self, x: Array) -> Array:
        """The float32 array widened (or kept) to this interpretation's dtype."""
        return np.asarray(x, dtype=self.dtype)

    def mask(self, x: Array) -> Array:
        """The mask itself."""
        return x

    def float64(self, x: Array) -> Array:
        """Widened; exact."""
        return np.asarray(x, dtype=np.float64)

    def sqrt(self, a: Array) -> Array:
        """Square root."""
        return namespace_of(a).sqrt(a)

    def exp(self, a: Array) -> Array:
        """Natural exponential."""
        return namespace_of(a).exp(a)

    def log(self, a: Array) -> Array:
        """Natural logarithm."""
        return namespace_of(a).log(a)

    def exp2(self, a: Array) -> Array:
        """2 to the power ``a``."""
        return namespace_of(a).exp2(a)

    def log2(self, a: Array) -> Array:
        """Base-2 logarithm."""
        return namespace_of(a).log2(a)

    def sum(self, a: Array, axis: int, *, over: str) -> Array:
        """Sum in the library's order."""
        return a.sum(axis, keepdims=True)

    def inner(self, a: Array, b: Array, axis: int, *, over: str) -> Array:
        """Sum of rounded products in the library's order."""
        return self.sum(a * b, axis, over=over)

    def max(self, a: Array, axis: int) -> Array:
        """Maximum along an axis; NaN if any is NaN."""
        return namespace_of(a).amax(a, axis, keepdims=True)

    def maximum(self, a: Array, b: Array) -> Array:
        """Elementwise maximum."""
        return namespace_of(a).maximum(a, b)

    def absolute(self, a: Array) -> Array:
        """Magnitude."""
        return namespace_of(a).abs(a)

    def negate(self, a: Array) -> Array:
        """Sign flipped."""
        return -a

    def dot(self, a: Array, b: Array, *, over: str) -> Array:
        """A matrix product by the library."""
        return a @ b.swapaxes(-1, -2)

    def select(self, mask: Array, a: Array, b: Array) -> Array:
        """``a`` where the mask is set, else ``b``."""
        return namespace_of(mask).where(mask, a, b)

    def cast(self, a: Array, fmt: Element, *, site: str, saturate: bool) -> Array:
        """Rounded in float32 if the site is active, else unchanged."""
        return fmt.round(a, saturate=saturate) if site in self.casts else a

    def scale_down(self, x: Array, scale: Array, fmt: Element) -> Array:
        """``x / scale``."""
        return self.div(x, scale)

    def carry(self, t: Array, q: Array) -> Array:
        """``t - q``."""
        return self.sub(t, q)

    def concatenate(self, parts: Sequence[Array], axis: int) -> Array:
        """Joined along an axis."""
        return namespace_of(parts[0]).concatenate(parts, axis)

    def ln2(self) -> Array:
        """ln 2 in this precision."""
        return self.array(np.full((1, 1), math.log(2.0), self.dtype))

    def per_ln2(self, x: float) -> Array:
        """``x log2 e`` in this precision."""
        return self.array(np.full((1, 1), x * math.log2(math.e), self.dtype))

    def broadcast(self, a: Array, shape: tuple[int, ...]) -> Array:
        """Repeated along axes of length 1 to a shape."""
        return namespace_of(a).broadcast_to(a, shape)

    def ceil(self, a: Array) -> Array:
        """The least integer not below ``a``."""
        return namespace_of(a).ceil(a)

    def ceil_log2(self, a: Array) -> Array:
        """The least n with ``a <= 2^n``, clamped; 0 for 0."""
        return exponents.ceil_log2(a)

    def max_shift_to_448(self, a: Array, *, limit: int = exponents.LARGEST_FIT) -> Array:
        """The largest n <= limit with ``a * 2^n <= 448``; 0 for 0."""
        return exponents.max_shift_to_448(a, limit=limit)

    def pow2(self, n: Array) -> Array:
        """2 to an integer power."""
        xp = namespace_of(n)
        return xp.ldexp(self._ones(n), n if n.dtype == xp.int32 else self._integers(n))

    def greater(self, a: Array, b: Array) -> Array:
        """Where ``a > b``."""
        return a > b

    def reference(self, a: Array) -> Array:
        """The number itself."""
        return a

    def at_largest(self, x: Array, windows: Array, keys: Array) -> Array:
        """x at the first key of largest ``keys`` in the first window of largest ``windows``."""
        xp = namespace_of(x)
        rows = xp.arange(x.shape[0], **_same_device(x))
        window = xp.argmax(windows[:, :, 0], 1)
        key = xp.argmax(keys[rows, window], 1)
        return x[rows, window, key][:, None]

    def _ones(self, like: Array) -> Array:
        return np.ones(like.shape, self.dtype)

    def _integers(self, x: Array) -> Array:
        return x.astype(np.int32)


def _same_device(x: Array) -> dict[str, Any]:
    """What ``arange`` needs to land beside a torch tensor; numpy 2 takes device='cpu' alike."""
    return {"device": x.device}


class Double(Floating):
    """float64; with every cast off it must equal ordinary attention."""

    name = "double"
    dtype = "float64"

    def __init__(self, casts: frozenset[str] = frozenset()) -> None:
        self.casts = casts


class Single(Floating):
    """float32 with the casts on, sums in the library's order."""

    name = "single"
    dtype = "float32"

    def __init__(self, casts: frozenset[str] = ALL_CASTS) -> None:
        self.casts = casts
