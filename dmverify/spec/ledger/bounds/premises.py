"""The premises of the lemmas that the ledger's bounds cite, evaluated on every row of every case.

A cited lemma without a row here has hypotheses that hold for whatever a defined row contains (a row
with a NaN or an infinity has no residual); a test says why, lemma by lemma, and fails for a cited
lemma that is in neither list.
"""

from __future__ import annotations

import numpy as np

from dmverify.spec.case import F64
from dmverify.spec.constants import constant
from dmverify.spec.formats import FP32
from dmverify.spec.ledger.bounds.magnitudes import Magnitudes, largest, sum_error, total
from dmverify.spec.ledger.bounds.rounding import overflow_of
from dmverify.spec.ledger.bounds.softmax import code_error, codes_error
from dmverify.spec.premises import Failing, Premise, failing

BF16_OVERFLOW = float(constant("BF16_OVERFLOW"))


def _exponent(sizes: Magnitudes) -> F64:
    """Largest exponent of a row in base 2, and what its references may be away from it."""
    return sizes.exponent if sizes.windowed else np.zeros(sizes.block.rows)


def _codes(sizes: Magnitudes) -> F64:
    """Relative error of the sum of codes, where a bound depends on it."""
    read = sizes.normaliser == "codes" and sizes.delta_mode.from_output
    return codes_error(sizes) if read else np.zeros(sizes.block.rows)


def _lost(sizes: Magnitudes) -> F64:
    """Twice what the codes of P may lose of a row, where the normaliser is made of them."""
    read = sizes.normaliser == "codes" and sizes.delta_mode.reads_stored
    return 2 * total(code_error(sizes)) if read else np.zeros(sizes.block.rows)


def _read_output(sizes: Magnitudes) -> F64:
    """The largest |O32| of a row that the delta pass reads, as if the store were BF16.

    Float32 stores nothing, and what saturates does not overflow.
    """
    store = sizes.store
    if store.saturate or store.fmt is FP32:
        return np.zeros(sizes.block.rows)
    read = largest(np.where(sizes.block.do_read != 0, np.abs(sizes.block.o32), 0.0))
    return np.asarray(read * (BF16_OVERFLOW / overflow_of(store.fmt)))


_SMALL = "a window's largest exponent and its references are integers that float32 holds exactly"

PREMISES = (
    Premise("window-argument", _SMALL, _exponent, "EXACT_EXPONENT"),
    Premise("window-code", _SMALL, _exponent, "EXACT_EXPONENT"),
    Premise("stale-maximum", _SMALL, _exponent, "EXACT_EXPONENT"),
    Premise("sum-fma-chain", "a row has fewer than 2^24 keys", lambda f: f.keys, "LONGEST_CHAIN"),
    Premise("relative-inverse", "a sum of P errs by less than itself", sum_error, "WHOLE"),
    Premise("relative-inverse", "a sum of codes errs by less than itself", _codes, "WHOLE"),
    Premise("relative-inverse", "codes lose less than half of a row of P", _lost, "WHOLE"),
    Premise("renormalized-delta", "a sum of P errs by less than itself", sum_error, "WHOLE"),
    Premise("shifted-delta", "a sum of P errs by less than itself", sum_error, "WHOLE"),
    Premise(
        "bf16-overflow", "no O that is read overflows its store", _read_output, "BF16_OVERFLOW"
    ),
)
"""What must hold of a row."""


def failing_in(sizes: Magnitudes) -> Failing:
    """The premises that fail in some row of a block, looked at once."""
    if sizes.failing is None:
        sizes.failing = failing(PREMISES, sizes)
    return sizes.failing
