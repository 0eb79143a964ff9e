"""Numbers of one interpretation, with the operators that the steps are written in.

A ``Num`` is an array together with the ``Arithmetic`` that says what its operations mean, so that a
step reads ``ds = p * (dp - delta)``. Every operator and word is one operation of the arithmetic:
``x * y + z`` rounds twice, ``fma(x, y, z)`` once. A Python float stands for that float32 number; a
numpy bool array is a mask that is known beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.exponents import LARGEST_FIT
from dmverify.spec.formats import Element
from dmverify.spec.namespace import Array

Flags: TypeAlias = Any  # numpy bool: a mask that is known beforehand (numpy types any() as both)
Value: TypeAlias = "Num | float"


@dataclass(frozen=True, eq=False, slots=True)
class Num:
    """An array of the numbers that the arithmetic ``a`` calculates with."""

    array: Array
    a: Arithmetic

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return tuple(self.array.shape)

    @property
    def T(self) -> Num:
        """The transpose of a matrix."""
        return self.swapaxes(0, 1)

    def __len__(self) -> int:
        return int(self.array.shape[0])

    def __getitem__(self, key: Any) -> Num:
        return Num(self.array[key], self.a)

    def reshape(self, *shape: Any) -> Num:
        """Reshaped."""
        return Num(self.array.reshape(*shape), self.a)

    def swapaxes(self, first: int, second: int) -> Num:
        """The array with two axes exchanged."""
        return Num(self.array.swapaxes(first, second), self.a)

    def of(self, value: float, shape: tuple[int, ...] = ()) -> Num:
        """A float32 constant of a shape, or one number with as many axes as this array."""
        whole = shape or (1,) * len(self.array.shape)
        return Num(self.a.array(np.full(whole, value, np.float32)), self.a)

    def float64(self) -> npt.NDArray[np.float64]:
        """The numbers as float64; midpoints where they are sets."""
        return np.asarray(self.a.float64(self.array))

    def __add__(self, other: Value) -> Num:
        return apply("add", self, other)

    def __sub__(self, other: Value) -> Num:
        return apply("sub", self, other)

    def __mul__(self, other: Value) -> Num:
        return apply("mul", self, other)

    def __truediv__(self, other: Value) -> Num:
        return apply("div", self, other)

    def __rtruediv__(self, other: Value) -> Num:
        return apply("div", other, self)

    def __neg__(self) -> Num:
        return apply("negate", self)

    def __abs__(self) -> Num:
        return apply("absolute", self)

    def __gt__(self, other: Value) -> Mask:
        return Mask(apply("greater", self, other).array)


@dataclass(frozen=True, eq=False, slots=True)
class Mask:
    """Where a comparison holds, as the arithmetic says it."""

    array: Any


def apply(operation: str, *values: Value) -> Num:
    """An operation of the arithmetic by its name, floats being constants."""
    numbers = _beside(*values)
    a = numbers[0].a
    return Num(getattr(a, operation)(*(x.array for x in numbers)), a)


# Words of one operation each, described by ``Arithmetic``.
fma, maximum, carry = (partial(apply, word) for word in ("fma", "maximum", "carry"))
exp, exp2, log, log2, sqrt, ceil = (
    partial(apply, word) for word in ("exp", "exp2", "log", "log2", "sqrt", "ceil")
)
ceil_log2, pow2, reference, with_largest = (
    partial(apply, word) for word in ("ceil_log2", "pow2", "reference", "with_largest")
)


def max_shift_to_448(x: Num, *, limit: int = LARGEST_FIT) -> Num:
    """The largest integer n <= limit with x 2^n <= 448; 0 for 0."""
    return Num(x.a.max_shift_to_448(x.array, limit=limit), x.a)


def scale_down(x: Num, scale: Num, fmt: Element) -> Num:
    """x / scale, where scale was made of the amax of the tile that x is in, for a cast to fmt."""
    return Num(x.a.scale_down(x.array, scale.array, fmt), x.a)


def known(like: Num, word: str, *args: float) -> Num:
    """A constant that the arithmetic knows by its name, ``ln2`` or ``per_ln2``."""
    return Num(getattr(like.a, word)(*args), like.a)


def integer_difference(x: Num, y: Num) -> Num:
    """x - y of integers, such as exponents, which are exact."""
    return Num(x.array - y.array, x.a)


def of_codes(x: Num, scale: Num, fmt: Element) -> Num:
    """x, which is code x scale of a format."""
    return Num(x.a.of_codes(x.array, scale.array, fmt), x.a)


def dot(x: Num, y: Num, *, over: str) -> Num:
    """x y^T, (M, K) and (N, K) to (M, N); ``over`` says what K counts."""
    return Num(x.a.dot(x.array, y.array, over=over), x.a)


def total(x: Num, axis: int, *, over: str) -> Num:
    """Sum along an axis in any order, the axis kept."""
    return Num(x.a.sum(x.array, axis, over=over), x.a)


def inner(x: Num, y: Num, axis: int, *, over: str) -> Num:
    """Sum of products along an axis in any order, the axis kept."""
    return Num(x.a.inner(x.array, y.array, axis, over=over), x.a)


def from_zero(x: Num) -> Num:
    """A sum as an accumulator that starts at +0 has it: never -0."""
    return x + 0.0


def largest(x: Num, axis: int) -> Num:
    """Maximum along an axis, the axis kept."""
    return Num(x.a.max(x.array, axis), x.a)


def where(mask: Mask | Flags, x: Value, y: Value) -> Num:
    """``x`` where the mask holds, ``y`` elsewhere."""
    left, right = _beside(x, y)
    chosen = mask.array if isinstance(mask, Mask) else left.a.mask(mask)
    return Num(left.a.select(chosen, left.array, right.array), left.a)


def cast(x: Num, fmt: Element, *, site: str, saturate: bool) -> Num:
    """The nearest number of a format, if the site rounds."""
    return Num(x.a.cast(x.array, fmt, site=site, saturate=saturate), x.a)


def broadcast(x: Num, shape: tuple[int, ...]) -> Num:
    """Repeated along axes of length 1 to a shape."""
    return Num(x.a.broadcast(x.array, shape), x.a)


def concatenate(parts: Sequence[Num], axis: int) -> Num:
    """Joined along an axis."""
    a = parts[0].a
    return Num(a.concatenate([part.array for part in parts], axis), a)


def any_of(choice: Num, allowed: Callable[[], Num]) -> Num:
    """What a contract leaves open: one choice, or all of ``allowed()`` where numbers are sets."""
    found: Num = choice.a.any_of(choice, allowed)
    return found


def _beside(*values: Value) -> list[Num]:
    """Floats as constants of the first number's kind."""
    like = next(x for x in values if isinstance(x, Num))
    return [x if isinstance(x, Num) else like.of(x) for x in values]
