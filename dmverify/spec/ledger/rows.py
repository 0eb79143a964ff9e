"""One exact rational a row: numerator 2^exponent / denominator, in Python integers.

All rows share the power of two. The denominator is 1 until a kernel's division enters (then it is
the row's normaliser for every term of that row), so sums stay in integers and nothing is reduced.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class Rows:
    """Exact numbers, one a row.

    Attributes:
        numerator: Python integers, (M,).
        exponent: The power of two of all rows.
        denominator: Positive Python integers, (M,); ``None`` means 1.
    """

    numerator: Integers
    exponent: int
    denominator: Integers | None = field(default=None)

    @classmethod
    def zeros(cls, rows: int) -> Rows:
        """0 in each row."""
        return cls(np.array([0] * rows, dtype=object), 0)

    def __len__(self) -> int:
        return len(self.numerator)

    def __neg__(self) -> Rows:
        return Rows(-self.numerator, self.exponent, self.denominator)

    def __add__(self, other: Rows) -> Rows:
        low = min(self.exponent, other.exponent)
        left = self.numerator << (self.exponent - low)
        right = other.numerator << (other.exponent - low)
        if _same(self.denominator, other.denominator):
            return Rows(left + right, low, self.denominator)
        a, b = _or_one(self.denominator), _or_one(other.denominator)
        return Rows(left * b + right * a, low, np.asarray(a * b, dtype=object))

    def __sub__(self, other: Rows) -> Rows:
        return self + -other

    def __mul__(self, other: Rows) -> Rows:
        denominator: Integers | None = self.denominator
        if other.denominator is not None:
            denominator = np.asarray(_or_one(denominator) * other.denominator, dtype=object)
        numerator = self.numerator * other.numerator
        return Rows(numerator, self.exponent + other.exponent, denominator)

    def inverse(self) -> Rows:
        """1 / x of each row.

        Raises:
            ZeroDivisionError: If a row is 0.
        """
        if not self.numerator.all():
            raise ZeroDivisionError("a row's normaliser is 0")
        sign = np.where(self.numerator < 0, -1, 1).astype(object)
        numerator = np.asarray(sign * _or_one(self.denominator), dtype=object)
        numerator = np.broadcast_to(numerator, self.numerator.shape)
        return Rows(numerator, -self.exponent, np.abs(self.numerator))

    def equals(self, other: Rows) -> npt.NDArray[np.bool_]:
        """Where the two are the same number, (M,)."""
        return np.asarray((self - other).numerator == 0, dtype=bool)

    def fractions(self) -> list[Fraction]:
        """The rows as fractions, in lowest terms."""
        power = Fraction(2) ** self.exponent
        lower = _or_one(self.denominator)
        pairs = zip(self.numerator, np.broadcast_to(lower, self.numerator.shape), strict=True)
        return [Fraction(int(n), int(d)) * power for n, d in pairs]

    def to_float(self) -> npt.NDArray[np.float64]:
        """The rows rounded to nearest float64."""
        up, down = max(self.exponent, 0), max(-self.exponent, 0)
        lower = np.broadcast_to(_or_one(self.denominator), self.numerator.shape)
        # int / int is correctly rounded in Python
        pairs = zip(self.numerator, lower, strict=True)
        return np.array([(int(n) << up) / (int(d) << down) for n, d in pairs], dtype=np.float64)


def _or_one(denominator: Integers | None) -> Integers:
    return np.array(1, dtype=object) if denominator is None else denominator


def _same(a: Integers | None, b: Integers | None) -> bool:
    if a is None or b is None:
        return a is b
    return a is b or bool((a == b).all())
