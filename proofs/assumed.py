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
        "Which sizes meet the premises of the theorems on closed forms",
        "How closed forms are put together is theorems, tied for every output and every row sum. "
        "That a form's number is at least the size that its premise speaks of stands in the table "
        "of premises, by hand; so do what a code of dS is worth (`Errors.unit`) and what the sum "
        "of O adds over windows (`accumulate`). The second reading (review.md) found four such "
        "sizes too small, one of them in an ordinary case.",
    ),
    (
        "What the induction over enclosures takes from elsewhere",
        "`kernel_enclosed` is about any list of steps and any functions with intervals for their "
        "answers. That exp, ex2, log, lg2 and casts have these intervals is certificates and "
        "`code_between`; that a chain of wgmma has its is `order_free`. By hand: that the steps of "
        "`spec.attention` are such a list; what a code stands for whatever its scale (`near`), "
        "the least nonzero number (`grain`), x - b below its maximum, one reference for all in "
        'the free order; infinite ends, of which the theorem has none but "nothing is known".',
    ),
    (
        "acc, dot, accdP and balance of the contract with windows",
        "windows_output, scaled_result and balance_of_exponentials state them. They are not tied: "
        "the code adds the roundings of 1 / l and of a window's weight as a power, (1 + u)^k.",
    ),
    (
        "The window's weight",
        "An exact power of two where the reference moves, else rounded and flushed: its flush is "
        "counted by hand.",
    ),
    (
        "Whole rows of the contract with windows",
        "Rows of every delta are theorems for contracts of whole rows, from the operands on. With "
        "windows each term has its theorem and the sum of the terms is the same identity.",
    ),
    (
        "Formats that are neither E4M3 nor BF16, static factors, saturating stores",
        "Their units stand where E4M3's and BF16's do in the same bounds; theorems on casts and "
        "stores are of those two.",
    ),
    (
        "From norms to the closed forms of rows",
        "stale_closed_row and its kin say how the terms add up, underflow among them; that a "
        "kernel's row meets their premises with the figures of the code is the table's, by hand.",
    ),
    (
        "Scales below fp32's normal numbers",
        "The theorems on rows need a group's scale to be normal. Elsewhere the code takes the "
        "sizes themselves, by hand.",
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
    (
        "ex2 and lg2 at 2^32 inputs",
        "Each answer is compared with float64's function, which is trusted to 2^-40; at the worst "
        "inputs theorems enclose exp and log instead.",
    ),
)
"""What a verdict uses and no theorem states, with the reason."""

BY_HAND: Mapping[str, str] = {
    "acc": "windows: stated by `windows_output`, not tied",
    "dot": "windows: stated by `scaled_result`, not tied",
    "accdP": "windows: stated by `scaled_result`, not tied",
    "match": "windows: that M is the saved reference of `normaliser_range`",
    "balance": "windows: stated by `balance_of_exponentials`, not tied",
    "elem": "windows: underflow in units of codes",
    "norm": "windows, associated: not tied",
    "prob": "windows, associated: not tied",
    "vmis": "0: both passes read one V^",
    "cast": "scales below fp32's normal numbers, and powers of two that stand still",
}
"""What of a term's bound no theorem states."""
