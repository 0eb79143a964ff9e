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
                ("rnd_plus_error", "rnd_candidate", "rounding_error", "sum_any_tree"),
                ("rn-error", "rn-candidate", "add-no-underflow", "sum-any-tree"),
                (f"{_SIZES}:sum_error",),
            ),
            Step(
                "An inner product in any order",
                "Products are rounded, or fused into an addition. Underflow moves a product by at "
                "most eta before anything else is rounded, so its share is rounded with the rest.",
                ("rnd_error", "inner_any_order", "match_any_order", "channel_dot"),
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
                "Additions that flush to 0",
                "A sum below the normal numbers is exact before it is flushed, so one addition "
                "loses at most the least normal number, and nothing else with it.",
                ("flushed_numbers", "flushed_sum"),
                ("flush-to-zero", "sum-flush-to-zero"),
                ("spec.bounds.closed:_tiny",),
            ),
            Step(
                "Differences and sums that are exact",
                "Two numbers within a factor of two; up to 2^17 products of codes in binary64.",
                ("near_differences", "exact_in_float64"),
                ("sterbenz", "exact-dot-float64"),
                (
                    "spec.formats.rounding:_nearest_by_addition",
                    "spec.arithmetic.enclosure_dot:wgmma_any_order",
                ),
            ),
            Step(
                "Operands that are rounded first",
                "Code times scale is rounded once on either side of a dot; O is divided once more.",
                ("two_roundings", "promotion", "composed", "rounded_operands", "rounded_quotient"),
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
                (
                    "partial_sums",
                    "order_free",
                    "any_chain",
                    "aligned_carried",
                    "carried_chain",
                    "least_norm",
                ),
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
                ("quotient_range", "power_of_two", "halving"),
                ("scale-divide-range", "scale-denormal", "scale-tiny-overshoot"),
                ("spec.scaling.rules:get_rule", f"{_CAST}:_unsaturated"),
            ),
            Step(
                "The nearest code",
                "A 17th of a normal number, half the smallest code of another, never more than the "
                "number itself, and half a unit of the code that came out.",
                (
                    "code_between",
                    "rounding_between",
                    "odd_code",
                    "saturation_changes_nothing",
                    "code_power_of_two",
                    "cast_at_most_itself",
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
                    "carry_exact_far",
                    "carry_16",
                    "carry_grows",
                    "carry_at_most_itself",
                    "chain_perturbation",
                    "cast_of_quotients",
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
                ("half_place", "max_argument", "window_argument", "windows", "below_reference"),
                ("max-argument", "window-argument"),
                (f"{_SOFTMAX}:drift_exponent",),
            ),
            Step(
                "What the two passes differ by",
                "Three exponentials, three arguments rounded once each; the window's weight is an "
                "exact power of two where the reference moves. ln 2 is below the chord by ten "
                "squarings.",
                ("rounded_argument", "fused_argument", "exp2_chord", "two_passes"),
                ("ex2-argument-fused", "ex2-error", "exp2-chord"),
                (f"{_SOFTMAX}:drift_exponent",),
            ),
            Step(
                "What stays finite",
                "A difference of logits, the reciprocal of a sum, a share times a code: each is "
                "at most half of the largest number. A weight is at most 1.",
                (
                    "finite_differences",
                    "finite_reciprocal",
                    "code_times_share",
                    "no_positive_exponent",
                ),
                ("finite-arguments", "dead-row", "ds-code-bound", "alpha-at-most-one"),
                ("spec.attention.windows:exponentials", "spec.attention.casts:by_exponent"),
            ),
            Step(
                "Constants and the functions of the card",
                "34 decimals of ln 2 and of its inverse; the LSE's store; ex2, lg2 and rcp where "
                "the card errs most, by intervals that Rocq computes. What the card answers to "
                "all other inputs is compared with float64's functions.",
                (
                    "ln2_enclosed",
                    "log2e_enclosed",
                    "lse_store",
                    "ex2_worst",
                    "lg2_worst",
                    "lg2_worst_near_one",
                    "rcp_worst",
                ),
                (
                    "softmax-constant",
                    "lse-store",
                    "ex2-error",
                    "lg2-error",
                    "lg2-near-one",
                    "rcp-error",
                ),
                ("spec.bounds.closed:_lse", "spec.ledger.bounds.constants:EX2"),
            ),
            Step(
                "norm: what P misses of 1",
                "The row sum's error, the quotient's roundings, and the mean of exp(lambda) - 1.",
                ("inverse_of_sum", "unit_sum", "share_from_backward", "norm_coded"),
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
                ("elem_error", "any_delta", "elem_two_roundings", "elem_three_roundings"),
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
                ("quotient_residue", "renormalized", "balance_renormalized"),
                ("renormalized-delta",),
                (f"{_DELTA}:balance_bound",),
            ),
            Step(
                "shifted",
                "The same of dP - d0, so that every term carries what is left of dP.",
                ("heaviest_key", "shifted", "balance_shifted"),
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
                ("spec.bounds.column_ledger:columns",),
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
    Part(
        "Means and norms",
        (
            Step(
                "Centring K, projecting dK",
                "A shift of all keys moves a row's logits alike. The gradient of centring is what "
                "is left of G without its mean: no column sum, no larger norm.",
                ("shifted_logits", "centred_gradient", "projected"),
                ("centring-shift", "centring-gradient", "projected-dk"),
                ("spec.scaling.centring:centre",),
            ),
            Step(
                "A scale of dS before dS is known",
                "Two row norms bound every dP.",
                ("cauchy_schwarz",),
                ("cauchy-schwarz",),
                ("spec.attention.casts:gradient_level",),
            ),
        ),
    ),
)
