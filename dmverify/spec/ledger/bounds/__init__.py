"""Each term's own elementary bound, rigorous for every kernel that keeps the contract.

A bound is evaluated in float64 as sums and products of nonnegative numbers. Each of its operations
errs by at most 2^-53 relatively (log2, exp2 and expm1 of numpy by a few times that), so a result
with at most k operations on any path is raised by k 2^-52 and the smallest normal number: what is
returned is never below the true value of the formula. The nearest cast's bound needs no raise where
it is the sum of the sizes themselves, correctly rounded as the term is.

Where a premise of a cited lemma fails (``premises``) a bound is infinite, and says why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dmverify.spec.attention.choices import choices_of
from dmverify.spec.attention.operand_casts import operand_casts
from dmverify.spec.attention.stores import store_of
from dmverify.spec.case import F64
from dmverify.spec.constants import DEFINITION
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import BF16, E4M3
from dmverify.spec.ledger.bounds.cast import cast_bound, cast_cap
from dmverify.spec.ledger.bounds.constants import (
    FLOAT64_SMALLEST_NORMAL,
    OPERATIONS,
    OPERATIONS_OF_A_TERM,
    TWO_U64,
)
from dmverify.spec.ledger.bounds.correction import (
    balance_bound,
    elem_bound,
    match_bound,
    rec_bound,
)
from dmverify.spec.ledger.bounds.forward import (
    acc_bound,
    accdp_bound,
    dot_bound,
    grad_bound,
    out_bound,
    vmis_bound,
)
from dmverify.spec.ledger.bounds.magnitudes import Magnitudes
from dmverify.spec.ledger.bounds.premises import failing_in
from dmverify.spec.ledger.bounds.softmax import norm_bound, prob_bound
from dmverify.spec.premises import BEYOND, reasons


@dataclass(frozen=True)
class Bound:
    """A term's bound.

    Attributes:
        cites: What it rests on, in words.
        lemmas: Ids of the lemmas and certificates that it composes.
        evaluate: Magnitudes of a row block to (M,), not yet rounded outward.
        cap: A second bound, correctly rounded, or None.
        of: What is cast to a format that the contract states: do, ds or store.
    """

    cites: str
    lemmas: tuple[str, ...]
    evaluate: Callable[[Magnitudes], F64]
    cap: Callable[[Magnitudes], F64] | None = None
    of: str = ""

    def lemmas_for(self, contract: Contract) -> tuple[str, ...]:
        """The same where formats are those of the lemmas; else what the format is by definition."""
        formats = {"store": store_of(contract, "o").fmt, "ds": choices_of(contract).ds_format}
        operand = operand_casts(contract).get(self.of)
        own = formats.get(self.of, operand.element if operand else E4M3)
        if own is (BF16 if self.of == "store" else E4M3):
            return self.lemmas
        kept = (name for name in self.lemmas if not name.startswith(("e4m3-", "bf16-")))
        return (*kept, DEFINITION)

    def __call__(self, sizes: Magnitudes) -> F64:
        """The bound of each row, (M,), rounded outward; infinite where a premise fails."""
        value = np.broadcast_to(self.evaluate(sizes), (sizes.block.rows,))
        if self.evaluate is vmis_bound:
            return value  # a contract that reads one V^ leaves no room at all
        longest = sizes.block.p.shape[1] + sizes.block.v.shape[1]
        raised = 1 + (OPERATIONS_OF_A_TERM * longest + OPERATIONS) * TWO_U64
        value = value * raised + FLOAT64_SMALLEST_NORMAL
        if self.cap is not None:
            value = np.minimum(value, self.cap(sizes))
        unbounded = (self._unmet(sizes) != "") | np.isnan(value)
        return np.where(unbounded, np.inf, value)

    def reasons(self, sizes: Magnitudes, bound: F64) -> npt.NDArray[np.object_]:
        """Why each row's bound is infinite, '' where it is not, (M,)."""
        words = self._unmet(sizes)
        words[np.isinf(bound) & (words == "")] = BEYOND
        return words

    def _unmet(self, sizes: Magnitudes) -> npt.NDArray[np.object_]:
        return reasons(failing_in(sizes), self.lemmas, (sizes.block.rows,))


_SUM = (
    "rn-error",
    "rn-error-subnormal",
    "sum-any-tree",
    "sum-dominated",
    "sum-fma-chain",
    "sum-tree-height",
)
_CORE = ("wgmma-large-exact", "wgmma-alignment-loss", "wgmma-final-truncation", "wgmma-natural")
_CODE = ("cast-shrinks", "e4m3-error", "e4m3-error-tiny", "e4m3-saturation", "scale-denormal")
_WINDOW = ("window-argument", "window-code", "max-code-256", "stale-maximum")
_SOFTMAX = (
    "norm-perturbation",
    "relative-composition",
    "relative-inverse",
    "exp2-chord",
    "ex2-error",
    "ex2-argument-fused",
)

BOUNDS: MappingProxyType[str, Bound] = MappingProxyType(
    {
        "prob": Bound(
            "the cast set of P: half an ulp of E4M3 per code, and the softmax chain",
            (*_CODE, "e4m3-grid", *_WINDOW, *_SOFTMAX),
            prob_bound,
        ),
        "grad": Bound("half an ulp per code of dO", _CODE, grad_bound, of="do"),
        "acc": Bound(
            "fp32 dot in any order, or the tensor core's truncation",
            (*_SUM, *_CORE, *_WINDOW, "promotion-step", "reciprocal-error"),
            acc_bound,
        ),
        "out": Bound(
            "half an ulp of the store",
            ("bf16-store", "bf16-store-tiny", "bf16-overflow"),
            out_bound,
            of="store",
        ),
        "dot": Bound("fp32 dot over channels in the contract's order", _SUM, dot_bound),
        "norm": Bound(
            "the softmax chain: sum of e, quotient, and ex2 where there are windows",
            (*_SUM, *_WINDOW, *_SOFTMAX, "reciprocal-error"),
            norm_bound,
        ),
        "accdP": Bound(
            "fp32 dot in any order, or the tensor core's truncation", (*_SUM, *_CORE), accdp_bound
        ),
        "elem": Bound(
            "two roundings, three when shifted",
            ("elem-error", "two-roundings", "rn-error-subnormal", *_WINDOW),
            elem_bound,
        ),
        "vmis": Bound("one rounding of V serves both passes", ("ledger-stale",), vmis_bound),
        "match": Bound(
            "fp32 dot over keys in the contract's order",
            ("matched-bound", *_SUM, *_WINDOW),
            match_bound,
        ),
        "rec": Bound(
            "P is what the delta pass presents, rounded once", ("rn-error", *_WINDOW), rec_bound
        ),
        "balance": Bound(
            "quotient of an fp32 dot and an fp32 sum",
            ("renormalized-delta", "shifted-delta", *_SUM, *_WINDOW),
            balance_bound,
        ),
        "cast": Bound(
            "half an ulp per code of dS, or per chain of carried errors",
            (
                *_CODE,
                "e4m3-error-of-code",
                "e4m3-half-unit",
                "carry-shrinks",
                "carry-telescopes",
                "carry-unclamped",
                "carry-exact",
                "cast-row-sum",
            ),
            cast_bound,
            cast_cap,
            of="ds",
        ),
    }
)
"""The bound of every term by name."""
