"""What the derivation rests on, and what a verdict uses that no theorem states.

``theory`` puts these words on its pages, beside the steps of ``derivation``.
"""

from __future__ import annotations

from collections.abc import Mapping

ASSUMED: tuple[tuple[str, str], ...] = (
    (
        "No overflow",
        "The theorems' formats have no upper end. Closed forms check sizes on every case; a row of "
        "the ledger that holds an infinity or a NaN has no residual.",
    ),
    (
        "Round to nearest even, gradual underflow in fp32",
        "Flushing of exponentials and window weights is counted beside it.",
    ),
    (
        "The instructions of an H200",
        "wgmma, ex2, lg2, rcp and cvt by models that agree with what the card answered: all 2^32 "
        "inputs of the functions, and recorded samples of wgmma.",
    ),
    (
        "exp and log of contracts in base e",
        "Two units of fp32: what such a contract asks of a kernel's functions.",
    ),
    (
        "Rocq 8.16 with Flocq, the axioms of the real numbers; z3, cvc5, bitwuzla",
        "`dmverify prove --theorems` prints what the theorems rest on and accepts no other axiom.",
    ),
)
"""What all of it rests on."""

NOT_PROVED: tuple[tuple[str, str], ...] = (
    (
        "Closed forms of O, LSE, delta, dQ, dK and dV, and row sums of stale, consistent and "
        "associated",
        "They compose terms that are tied to theorems; the composition is by hand, and a search "
        "over 20,000 extreme cases found no violation.",
    ),
    (
        "Enclosures",
        "Sound by induction over the steps, each by a lemma; the induction is by hand.",
    ),
    (
        "balance and dot of the contract with windows",
        "Where e is summed and 1 / l multiplied at the end, the roundings of 1 / l and of e r "
        "compound with the theorem's sum; by hand, RECIPROCAL_ROUNDINGS counts them.",
    ),
    (
        "l above 1/4 and at most 2 n, with windows",
        "The saved reference is within 1 1/2 of the largest exponent; by hand (window-argument).",
    ),
    (
        "acc of the contract with windows",
        "The chain of a window is natural_order; its factor and the sum over windows are by hand.",
    ),
    (
        "norm of associated",
        "The sum of codes and two roundings; the sum has theorems, the rest is by hand.",
    ),
    (
        "dS in units of codes",
        "A power of two moves where products underflow; the count of underflows is by hand.",
    ),
    (
        "dP or P of 0 with underflow in the column bound",
        "Relative errors there have no underflow; what underflow takes stands beside them.",
    ),
    (
        "Rows of more than 2^22 keys in balance, 2^12 channels in dot",
        "The theorems ask for n u at most 1 / 4, the code for less than 1.",
    ),
)
"""What a verdict uses and no theorem states, with the reason."""

BY_HAND: Mapping[str, str] = {
    "acc": "windows: the window's factor, the sum over windows",
    "dot": "windows: the scale after the dot",
    "accdP": "windows: the tile's factor",
    "match": "windows: l above 1/4",
    "balance": "windows: the same in numerator and denominator",
    "elem": "windows: underflow in units of codes",
    "norm": "associated: the sum of codes",
    "prob": "associated: P~ rounded twice",
    "vmis": "0: both passes read one V^",
    "cast": "scales below fp32's normal numbers, and powers of two that stand still",
}
"""What of a term's bound no theorem states."""
