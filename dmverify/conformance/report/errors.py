"""The errors of one output over all cases of a run: what stands beside its verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from dmverify.conformance.verdict import Finding


@dataclass(frozen=True)
class Errors:
    """How wrong an output is, over the cases that were measured.

    Attributes:
        cases: How many were.
        median: The median case's error from float64 attention (``rms``).
        largest: The largest one.
        worst: The largest error of one element, in units of the output's root mean square.
        ulp: The largest error of one element in units in the last place.
        contract: The largest error from what the contract computes (``rms``).
        case: The case of the largest error from attention.
    """

    cases: int
    median: float
    largest: float
    worst: float
    ulp: float
    contract: float
    case: str


def errors_of(findings: Iterable[Finding]) -> Errors | None:
    """Sums up one check's findings; None where nothing was measured."""
    both = [(f.case, f.accuracy) for f in findings if f.accuracy is not None]
    measured = [(case, a.attention) for case, a in both if not math.isnan(a.attention.rms)]
    if not measured:
        return None
    case, largest = max(measured, key=lambda row: row[1].rms)
    return Errors(
        cases=len(measured),
        median=median(d.rms for _, d in measured),
        largest=largest.rms,
        worst=max(d.worst for _, d in measured),
        ulp=max(d.ulp for _, d in measured),
        contract=max((a.contract.rms for _, a in both if a.contract.rms >= 0), default=math.nan),
        case=case,
    )
