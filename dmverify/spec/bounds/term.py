"""A bound as the sum of named terms, each with the lemmas it rests on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dmverify.spec.constants import constant

OUTWARD = float(constant("OUTWARD"))
OPERATIONS = int(constant("CLOSED_FORM_OPERATIONS"))


@dataclass(frozen=True)
class Term:
    """One contribution.

    Attributes:
        name: Which rounding it comes from.
        value: Its size, in the units of the bound.
        lemmas: Ids of lemmas and certificates.
    """

    name: str
    value: float
    lemmas: tuple[str, ...]


@dataclass(frozen=True)
class ClosedForm:
    """A bound and what it consists of.

    Attributes:
        output: What is bounded.
        reference: ``operands`` (exact attention on dequantised operands) or ``inputs``.
        terms: They add up to the bound.
    """

    output: str
    reference: str
    terms: tuple[Term, ...]

    @property
    def value(self) -> float:
        """The bound, rounded up."""
        return math.fsum(term.value for term in self.terms) * (1 + OPERATIONS * OUTWARD)


def compounded(size: float, relative: Sequence[Term]) -> tuple[Term, ...]:
    """size ((1 + r1) (1 + r2) ... - 1), each r as a term and what multiplies them as one more."""
    total = math.expm1(math.fsum(math.log1p(term.value) for term in relative))
    first = math.fsum(term.value for term in relative)
    rest = max(total - first, 0.0) * (1 + OPERATIONS * OUTWARD)
    terms = [Term(term.name, size * term.value, term.lemmas) for term in relative]
    return (*terms, Term("second order", size * rest, ("relative-composition",)))


def total(terms: Sequence[Term]) -> float:
    """Their sum, rounded up."""
    return math.fsum(term.value for term in terms) * (1 + OPERATIONS * OUTWARD)
