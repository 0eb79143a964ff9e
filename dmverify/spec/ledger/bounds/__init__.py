"""Each term's own elementary bound, rigorous for every kernel that keeps the contract.

A bound is evaluated in float64 as sums and products of nonnegative numbers. Each of its operations
errs by at most 2^-53 relatively (log2, exp2 and expm1 of numpy by a few times that), so a result
with at most k operations on any path is raised by k 2^-52 and the smallest normal number: what is
returned is never below the true value of the formula.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from dmverify.spec.case import F64
from dmverify.spec.ledger.bounds.cast import cast_bound
from dmverify.spec.ledger.bounds.constants import OUTWARD
from dmverify.spec.ledger.bounds.correction import (
    balance_bound,
    elem_bound,
    match_bound,
    rec_bound,
)
from dmverify.spec.ledger.bounds.facts import Facts
from dmverify.spec.ledger.bounds.forward import (
    acc_bound,
    accdp_bound,
    dot_bound,
    grad_bound,
    out_bound,
    vmis_bound,
)
from dmverify.spec.ledger.bounds.softmax import norm_bound, prob_bound

OPERATIONS = 256  # on a path, besides the lengths of the sums
SMALLEST = 2.0**-1022


@dataclass(frozen=True)
class Bound:
    """A term's bound.

    Attributes:
        cites: The statement it rests on, in words, with its source.
        evaluate: Facts of a sheet to (M,), not yet rounded outward.
    """

    cites: str
    evaluate: Callable[[Facts], F64]

    def __call__(self, facts: Facts) -> F64:
        """The bound of each row, (M,), rounded outward."""
        value = np.broadcast_to(self.evaluate(facts), (facts.sheet.rows,))
        if self.evaluate is vmis_bound:
            return value  # a contract that reads one V^ leaves no room at all
        longest = facts.sheet.p.shape[1] + facts.sheet.v.shape[1]
        return np.asarray(value * (1 + (4 * longest + OPERATIONS) * OUTWARD) + SMALLEST)


BOUNDS: MappingProxyType[str, Bound] = MappingProxyType(
    {
        "prob": Bound("cast sets of P: half an ulp of E4M3 per code", prob_bound),
        "grad": Bound("half an ulp of E4M3 per code of dO", grad_bound),
        "acc": Bound("fp32 dot in any order, or truncation of the tensor core", acc_bound),
        "out": Bound("half an ulp of BF16", out_bound),
        "dot": Bound("fp32 dot over channels in the contract's order", dot_bound),
        "norm": Bound("softmax chain: sum of e, quotient, ex2 where there are windows", norm_bound),
        "accdP": Bound("fp32 dot in any order, or truncation of the tensor core", accdp_bound),
        "elem": Bound("two roundings, three when shifted", elem_bound),
        "vmis": Bound("one rounding of V serves both passes", vmis_bound),
        "match": Bound("fp32 dot over keys in the contract's order", match_bound),
        "rec": Bound("P is what the delta pass presents, rounded once", rec_bound),
        "balance": Bound("quotient of an fp32 dot and an fp32 sum", balance_bound),
        "cast": Bound("half an ulp of E4M3 per code, or per chain of carried errors", cast_bound),
    }
)
"""The bound of every term by name."""
