"""The derivation of the bounds as numbered steps: words by hand, formulas from theorems and code.

``theory`` makes the pages of docs/theory of this. A step has no number of its own and no formula:
the number is its place, the formula is the theorem's as ``statements`` reads it, the line is the
code's as it stands.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes:
        title: What it says, in a few words.
        words: Why, and for what it is used.
        theorems: Their names, in ``rocq/``.
        lemmas: Ids of lemmas and certificates.
        code: ``module:object`` that uses it, below ``dmverify``.
    """

    title: str
    words: str
    theorems: tuple[str, ...]
    lemmas: tuple[str, ...]
    code: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """Steps that belong together."""

    title: str
    steps: tuple[Step, ...]


_SIZES = "spec.ledger.bounds.magnitudes"
_SOFTMAX = "spec.ledger.bounds.softmax"
_FORWARD = "spec.ledger.bounds.forward"
_DELTA = "spec.ledger.bounds.correction"
_CAST = "spec.ledger.bounds.cast"

PARTS: tuple[Part, ...] = (
    Part(
        "Sums in binary32",
        (
            Step(
                "A sum in any order",
                "Every order is a tree of additions. An addition errs relative to its result, and "
                "never by more than what is added; together they give (n - 1) u for any tree. "
                "Additions do not underflow.",
                ("sum_any_tree",),
                ("rn-error", "rn-candidate", "add-no-underflow", "sum-any-tree"),
                (f"{_SIZES}:sum_error",),
            ),
            Step(
                "An inner product in any order",
                "Products are rounded, or fused into an addition. Underflow moves a product by at "
                "most eta before anything else is rounded, so its share is rounded with the rest.",
                ("inner_any_order", "match_any_order", "channel_dot"),
                ("sum-fma-chain", "rn-error-subnormal"),
                (f"{_SIZES}:dot_error", f"{_SIZES}:row_order_error"),
            ),
            Step(
                "A stated order",
                "Where the order is known, what counts is the roundings on the way of a term: a "
                "chain of eight keys, its partner, one step a window, two folds of lanes.",
                ("stated_order", "stated_sum", "match_stated_order"),
                ("sum-tree-height",),
                (f"{_SIZES}:path", f"{_SIZES}:channel_error"),
            ),
            Step(
                "A sum of which one term is most",
                "Follow the largest term from its leaf to the root. What it meets bounds the error "
                "of the meeting, so a one-hot row costs little whatever its length is.",
                ("dominated",),
                ("sum-dominated",),
                (f"{_SIZES}:dominated",),
            ),
            Step(
                "Operands that are rounded first",
                "Code times scale is rounded once on either side of a dot; O is divided once more.",
                ("rounded_operands", "rounded_quotient"),
                ("two-roundings", "promotion-step", "reciprocal-error"),
                (f"{_FORWARD}:accdp_bound", f"{_FORWARD}:acc_bound"),
            ),
        ),
    ),
    Part(
        "The tensor core",
        (
            Step(
                "One instruction",
                "All terms are truncated to the quantum of the largest exponent, added exactly, "
                "and the sum truncated to 14 bits. No truncation raises a magnitude.",
                ("one_step",),
                ("wgmma-alignment-loss", "wgmma-final-truncation", "wgmma-no-overflow"),
                ("spec.machine.hopper.wgmma_reference:finite_sum",),
            ),
            Step(
                "A chain in its natural order",
                "The largest product so far bounds the exponent; products within 2^-6 of it lose "
                "nothing, which an exhaustive run over all pairs of codes shows.",
                ("natural_order",),
                ("wgmma-natural", "wgmma-large-exact"),
                ("spec.ledger.bounds.tensor_core:chain_error",),
            ),
            Step(
                "A chain in any order",
                "An accumulator of 14 bits loses nothing where its exponent is the largest, and "
                "elsewhere a product loses nothing: 32 quanta an instruction. X Y bounds the "
                "largest exponent because X and Y are the largest norms of all rows.",
                ("any_chain", "carried_chain", "least_norm"),
                ("wgmma-order-free", "wgmma-rho-chained", "wgmma-partials", "wgmma-c-exact"),
                ("spec.bounds.errors:Errors.dot",),
            ),
        ),
    ),
    Part(
        "Casts and stores",
        (
            Step(
                "Block scales",
                "amax / 448, rounded, leaves quotients of at most 448 + 2^-15, which round to a "
                "code. A power of two passes through every rounding that does not underflow.",
                ("quotient_range", "power_of_two"),
                ("scale-divide-range", "scale-denormal", "scale-tiny-overshoot"),
                ("spec.scaling.rules:get_rule", f"{_CAST}:_unsaturated"),
            ),
            Step(
                "The nearest code",
                "A 17th of a normal number, half the smallest code of another, never more than the "
                "number itself, and half a unit of the code that came out.",
                (
                    "nearest_cast",
                    "nearest_cast_at_most_itself",
                    "nearest_cast_normal",
                    "nearest_known",
                ),
                ("e4m3-error", "e4m3-error-tiny", "e4m3-half-unit", "cast-shrinks"),
                (f"{_CAST}:cast_bound", f"{_CAST}:half_unit"),
            ),
            Step(
                "Codes of operands and of P",
                "The scale, its inverse and the product are rounded before the code is.",
                ("operand_cast", "scaled_cast", "code_error_coded", "grad_known"),
                ("e4m3-double-rounding", "window-code", "max-code-256"),
                (f"{_FORWARD}:grad_bound", f"{_SOFTMAX}:code_error"),
            ),
            Step(
                "The zero-sum cast",
                "The error of one code is carried to the next number of its chain. The carry needs "
                "no rounding, the sum telescopes, and half a unit of the last code is left.",
                (
                    "carry_needs_no_rounding",
                    "zero_sum_identity",
                    "zero_sum_cast",
                    "zero_sum_known",
                    "zero_sum_scaled",
                ),
                ("carry-exact", "carry-telescopes", "carry-unclamped", "carry-shrinks"),
                (f"{_CAST}:cast_bound", "spec.bounds.residual:cast_of_rows"),
            ),
            Step(
                "The BF16 store",
                "Half a unit, at least half the smallest number.",
                ("bf16_store", "bf16_half_unit"),
                ("bf16-store", "bf16-store-tiny", "bf16-overflow"),
                (f"{_FORWARD}:out_bound", "spec.bounds.columns:store_bound"),
            ),
        ),
    ),
    Part(
        "The softmax of two passes",
        (
            Step(
                "The running reference",
                "It moves to the next integer above b when b passes it by 32. R + 32 is formed in "
                "binary32, exactly while |R| + 32 is at most 2^24.",
                ("lazy_reference",),
                ("stale-maximum", "window-argument"),
                ("spec.attention.windows:RESCALE_THRESHOLD",),
            ),
            Step(
                "How far a logit is from its references",
                "By the probability itself: x - M is log2 (P l), with l in (1/4, 2 n].",
                ("windows", "below_reference"),
                ("max-argument", "window-argument"),
                (f"{_SOFTMAX}:drift_exponent",),
            ),
            Step(
                "What the two passes differ by",
                "Three exponentials, three arguments rounded once each; the window's weight is an "
                "exact power of two where the reference moves. ln 2 is below the chord by ten "
                "squarings.",
                ("two_passes",),
                ("ex2-argument-fused", "ex2-error", "exp2-chord"),
                (f"{_SOFTMAX}:drift_exponent",),
            ),
            Step(
                "norm: what P misses of 1",
                "The row sum's error, the quotient's roundings, and the mean of exp(lambda) - 1.",
                ("unit_sum", "share_from_backward", "norm_coded"),
                ("norm-perturbation", "relative-inverse", "relative-composition"),
                (f"{_SOFTMAX}:norm_bound", "spec.bounds.errors:unit_sum"),
            ),
            Step(
                "prob: the forward's codes against the backward's P",
                "Each code by its own error; where the normaliser is the sum of the codes, what "
                "they lose together moves all of them and is multiplied with |sum P dP| alone.",
                ("prob_unrounded", "prob_codes"),
                ("e4m3-grid", "relative-inverse"),
                (f"{_SOFTMAX}:prob_bound",),
            ),
            Step(
                "The mean of exp(lambda) - 1 in n alone",
                "Not exp of the mean: Jensen's inequality points the other way, and the largest "
                "lambda, below 2^-14, pays for it. The mean of |log2 P| is the row's entropy.",
                ("entropy", "mean_drift", "mean_lambda"),
                ("norm-perturbation",),
                ("spec.bounds.errors:drift_of",),
            ),
        ),
    ),
    Part(
        "Row sums of dS",
        (
            Step(
                "Any delta",
                "What delta misses of A, what P misses of 1, and the roundings of dS.",
                ("any_delta", "elem_two_roundings", "elem_three_roundings"),
                ("elem-error", "two-roundings"),
                (f"{_DELTA}:elem_bound",),
            ),
            Step(
                "matched",
                "delta is the row's own inner product, in whatever order; with windows 1 / l is "
                "multiplied at the end, underflow and all.",
                ("matched", "match_reciprocal", "presented_once"),
                ("matched-bound",),
                (f"{_DELTA}:match_bound", f"{_DELTA}:rec_bound"),
            ),
            Step(
                "renormalized",
                "A quotient of two computed sums: 1 - B has no term.",
                ("renormalized", "balance_renormalized"),
                ("renormalized-delta",),
                (f"{_DELTA}:balance_bound",),
            ),
            Step(
                "shifted",
                "The same of dP - d0, so that every term carries what is left of dP.",
                ("shifted", "balance_shifted"),
                ("shifted-delta", "shifted-dominance"),
                (f"{_DELTA}:balance_bound",),
            ),
            Step(
                "stale, consistent, associated: the ledger",
                "An identity, whatever the numbers are; with everything else exact it is equation "
                "2 of the paper. What says something is the bound of each term.",
                ("ledger_stale", "eq2", "stale_bound", "ledger_consistent", "ledger_associated"),
                ("ledger-stale",),
                ("spec.ledger.terms:TERMS", "spec.ledger.bounds:BOUNDS"),
            ),
        ),
    ),
    Part(
        "Column sums of dK",
        (
            Step(
                "Columns are rows seen through q",
                "Before the cast and after it.",
                ("column_sums", "column_sum_bound"),
                ("column-sum",),
                ("spec.ledger.columns:columns",),
            ),
            Step(
                "From inputs alone",
                "How far a kernel's delta and its sum of P |dP - delta| may be from exact ones.",
                ("delta_reach", "kernel_spread"),
                ("column-sum",),
                ("spec.bounds.columns:delta_reach", "spec.bounds.columns:kernel_spread"),
            ),
        ),
    ),
)

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
