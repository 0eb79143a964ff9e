"""The premises of the lemmas that the closed forms cite, evaluated on the norms of a call.

See ``dmverify.spec.ledger.bounds.premises`` for the ledger's: here a size is one number for the
whole call, and an overflow that leaves a finite output (an exponential of -infinity) counts too.
"""

from __future__ import annotations

from dmverify.spec.bounds.errors import Errors
from dmverify.spec.ledger.bounds.constants import (
    LEVEL_FACTOR,
    LOG2_E,
    P_MAX_EXPONENT,
    RESCALE_THRESHOLD,
)
from dmverify.spec.premises import Premise


def _exponent(errors: Errors) -> float:
    """Largest exponent in base 2, and what its references may be away from it."""
    return (
        errors.logit * LOG2_E + P_MAX_EXPONENT + 2 * RESCALE_THRESHOLD if errors.windowed else 0.0
    )


def _largest(errors: Errors) -> float:
    """What a product of two operands, scaled or not, may be."""
    return max(errors.raw, errors.logit, errors.gradient) * 2


def _level(errors: Errors) -> float:
    """|dO| |V| + |shift| + |delta|, whose power of two scales dS where it is chosen a priori."""
    return LEVEL_FACTOR * errors.gradient if errors.windowed else 0.0


_SMALL = "a window's largest exponent and its references are integers that float32 holds exactly"

PREMISES = (
    Premise("rn-error", "products of operands stay in the range of fp32", _largest, "FP32_RANGE"),
    Premise("window-argument", _SMALL, _exponent, "EXACT_EXPONENT"),
    Premise("window-code", _SMALL, _exponent, "EXACT_EXPONENT"),
    Premise("e4m3-error", "the level of dS is at most 2^120", _level, "LARGEST_LEVEL"),
    Premise("sum-fma-chain", "a row has fewer than 2^24 keys", lambda e: e.keys, "LONGEST_CHAIN"),
    Premise("relative-inverse", "a sum errs by less than itself", lambda e: e.row(2), "WHOLE"),
    Premise("renormalized-delta", "a sum errs by less than itself", lambda e: e.row(), "WHOLE"),
    Premise("shifted-delta", "a sum errs by less than itself", lambda e: e.row(), "WHOLE"),
)
"""What must hold of a call."""
