"""What an interpretation of single numbers answers where one of sets has more to say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dmverify.spec.arithmetic.interface import Logits
from dmverify.spec.formats import Element
from dmverify.spec.namespace import Array


class SingleValued:
    """One number stands at each place, so an open choice is made and no operand is forgotten."""

    def any_of(self, known: Any, allowed: Callable[[], Any]) -> Any:
        """The choice that is known."""
        return known

    def of_codes(self, x: Array, scale: Array, fmt: Element) -> Array:
        """The numbers themselves."""
        return x

    def below_maximum(self, row: Logits) -> Array:
        """``x - top``."""
        return self.sub(row.x, row.top)

    def with_largest(self, total: Array) -> Array:
        """The sum itself."""
        return total

    def share(self, e: Array, total: Array, row: Logits) -> Array:
        """``e / total``."""
        return self.div(e, total)

    def add(self, a: Array, b: Array) -> Array:
        """``a + b``, by the numbers' own operators, as those that follow."""
        return a + b

    def sub(self, a: Array, b: Array) -> Array:
        """``a - b``."""
        return a - b

    def mul(self, a: Array, b: Array) -> Array:
        """``a * b``."""
        return a * b

    def div(self, a: Array, b: Array) -> Array:
        """``a / b``."""
        return a / b

    def fma(self, a: Array, b: Array, c: Array) -> Array:
        """``a * b + c``; two roundings, where the operators round."""
        return a * b + c
