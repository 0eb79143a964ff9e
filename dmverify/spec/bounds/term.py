"""A bound as the sum of named terms, each with the lemmas it rests on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dmverify.spec.constants import constant
from dmverify.spec.premises import BEYOND, Failing, reasons

TWO_U64 = float(constant("TWO_U64"))
OPERATIONS = int(constant("CLOSED_FORM_OPERATIONS"))
LOG_LARGEST = float(constant("LOG_LARGEST"))


@dataclass(frozen=True)
class Term:
    """One contribution.

    Attributes:
        name: Which rounding it comes from.
        value: Its size, in the units of the bound; infinite where a premise fails.
        lemmas: Ids of lemmas and certificates.
        reason: Which premise, in words; empty where the value is finite.
    """

    name: str
    value: float
    lemmas: tuple[str, ...]
    reason: str = ""


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
        return total(self.terms)

    @property
    def reason(self) -> str:
        """Why it is infinite; empty where it is not."""
        return next((term.reason for term in self.terms if term.reason), "")


def compounded(size: float, relative: Sequence[Term]) -> tuple[Term, ...]:
    """size ((1 + r1) (1 + r2) ... - 1), each r as a term and what multiplies them as one more."""
    whole = grown(math.fsum(math.log1p(term.value) for term in relative))
    first = math.fsum(term.value for term in relative)
    rest = max(whole - first, 0.0) * (1 + OPERATIONS * TWO_U64) if whole < math.inf else whole
    terms = [Term(term.name, size * term.value, term.lemmas) for term in relative]
    return (*terms, Term("second order", size * rest, ("relative-composition",)))


def grown(exponent: float) -> float:
    """exp(x) - 1, infinite where float64 has no such number."""
    return math.expm1(exponent) if exponent <= LOG_LARGEST else math.inf


def inverse(relative: float) -> float:
    """1 / (1 - r) - 1, infinite from r = 1 on."""
    return relative / (1 - relative) if relative < 1 else math.inf


def total(terms: Sequence[Term]) -> float:
    """Their sum, rounded up; infinite where one is infinite or no number."""
    values = [term.value for term in terms]
    if not all(map(math.isfinite, values)):
        return math.inf
    return math.fsum(values) * (1 + OPERATIONS * TWO_U64)


def settled(terms: Sequence[Term], failed: Failing) -> tuple[Term, ...]:
    """The terms, infinite with a reason where one of their premises fails or float64 ends."""
    return tuple(_settled(term, failed) for term in terms)


def _settled(term: Term, failed: Failing) -> Term:
    reason = str(reasons(failed, term.lemmas, ())[()])
    if not reason and not math.isfinite(term.value):
        reason = BEYOND
    return replace(term, value=math.inf, reason=reason) if reason else term
