"""Bounds in the code against the theorems that they are the right sides of, term by term.

A tie names a bound, the code that computes it, the theorem, and cases: what the code says there,
and what the theorem's variables are. ``compare`` evaluates the theorem from its source, in exact
numbers, and asks
- that the code is never below the theorem;
- of each of the theorem's summands, that there is a case where the code would fall below if that
  summand were halved: none can be halved or left out unseen.

| file | ties |
|---|---|
| ``ties_ledger`` | the ledger's terms, on rows of many magnitudes: equal but for float64 |
| ``ties_closed`` | closed forms and column sums, on the rows that they are the worst of |

Not covered: whether a row's variables are what a theorem means by them (``tie_values``, by hand),
and bounds that compose others without a theorem of their own (``trusted``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from dmverify.proofs.statements import get_statement
from dmverify.spec.case import F64

Uses: TypeAlias = Iterable[tuple[Fraction, dict[str, Any]]]
Case: TypeAlias = tuple[float, Uses]
"""What the code says; factors and variables of the theorem's uses, whose sum it is."""

EVALUATION = 1e-11  # relative error of the code in float64
NOTICED = 1e-9  # how far the code would be below the theorem, at least


@dataclass(frozen=True)
class Tie:
    """One bound in one form of contract.

    Attributes:
        bound: What it bounds, and where.
        code: ``module:function`` that computes it, below ``dmverify``.
        theorem: Whose right side it is.
        cases: Where they are compared.
        unseen: Summands of the theorem that the code may be above by as much, with the reason.
    """

    bound: str
    code: str
    theorem: str
    cases: Callable[[], Iterable[Case]]
    unseen: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """What ``compare`` found.

    Attributes:
        tie: What was compared.
        ratios: The code over the theorem, a number a case.
        shares: Of each summand in the theorem, (cases, summands).
    """

    tie: Tie
    ratios: F64
    shares: F64

    @property
    def below(self) -> float:
        """How far the code is below the theorem, relatively."""
        return float(1 - self.ratios.min())

    @property
    def above(self) -> float:
        """How far it is above, where it is nearest."""
        return float(self.ratios.min() - 1)

    @property
    def blind(self) -> tuple[int, ...]:
        """Summands that no case would miss half of."""
        halved = self.ratios[:, None] * (1 - self.shares / 2)
        return tuple(int(k) for k in np.flatnonzero(halved.min(axis=0) > 1 - NOTICED))

    def to_json(self) -> dict[str, Any]:
        """Plain data for json.dumps."""
        return {
            "bound": self.tie.bound,
            "code": self.tie.code,
            "theorem": self.tie.theorem,
            "cases": len(self.ratios),
            "least": float(self.ratios.min()),
            "largest": float(self.ratios.max()),
            "unseen": {str(k): words for k, words in self.tie.unseen.items()},
            "ok": self.ok,
        }

    @property
    def ok(self) -> bool:
        """Never below, and no summand could be halved but those that say why."""
        return self.below <= EVALUATION and set(self.blind) <= set(self.tie.unseen)


def compare(tie: Tie) -> Comparison:
    """Code and theorem in every case of a tie."""
    claim = get_statement(tie.theorem).claims[0]
    ratios, shares = [], []
    for coded, uses in tie.cases():
        parts = [[factor * x for x in claim.terms(**values)] for factor, values in uses]
        summands = [sum(column, Fraction(0)) for column in zip(*parts, strict=True)]
        whole = sum(summands, Fraction(0))
        ratios.append(float(Fraction(coded) / whole))
        shares.append([float(part / whole) for part in summands])
    return Comparison(tie, np.array(ratios), np.array(shares))
