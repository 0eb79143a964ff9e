"""The derivation from the softmax on: two passes, row sums, columns, what is put together."""

from __future__ import annotations

from dmverify.proofs.steps import CAST, DELTA, FORWARD, SOFTMAX, Part, Step

ROWS: tuple[Part, ...] = (
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
                (f"{SOFTMAX}:drift_exponent",),
            ),
            Step(
                "What the two passes differ by",
                "Three exponentials, three arguments rounded once each; the window's weight is an "
                "exact power of two where the reference moves. ln 2 is below the chord by ten "
                "squarings.",
                ("rounded_argument", "fused_argument", "exp2_chord", "two_passes"),
                ("ex2-argument-fused", "ex2-error", "exp2-chord"),
                (f"{SOFTMAX}:drift_exponent",),
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
                (f"{SOFTMAX}:norm_bound", "spec.bounds.errors:unit_sum"),
            ),
            Step(
                "prob: the forward's codes against the backward's P",
                "Each code by its own error; where the normaliser is the sum of the codes, what "
                "they lose together moves all of them and is multiplied with |sum P dP| alone.",
                ("prob_unrounded", "prob_codes"),
                ("e4m3-grid", "relative-inverse"),
                (f"{SOFTMAX}:prob_bound",),
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
                (f"{DELTA}:elem_bound",),
            ),
            Step(
                "matched",
                "delta is the row's own inner product, in whatever order; with windows 1 / l is "
                "multiplied at the end, underflow and all.",
                ("matched", "match_reciprocal", "presented_once"),
                ("matched-bound",),
                (f"{DELTA}:match_bound", f"{DELTA}:rec_bound"),
            ),
            Step(
                "renormalized",
                "A quotient of two computed sums: 1 - B has no term.",
                ("quotient_residue", "renormalized", "balance_renormalized"),
                ("renormalized-delta",),
                (f"{DELTA}:balance_bound",),
            ),
            Step(
                "shifted",
                "The same of dP - d0, so that every term carries what is left of dP.",
                ("heaviest_key", "shifted", "balance_shifted"),
                ("shifted-delta", "shifted-dominance"),
                (f"{DELTA}:balance_bound",),
            ),
            Step(
                "stale, consistent, associated: the ledger",
                "An identity, whatever the numbers are; with everything else exact it is equation "
                "2 of the paper. What says something is the bound of each term.",
                (
                    "ledger_stale",
                    "eq2",
                    "stale_bound",
                    "ledger_consistent",
                    "consistent_bound",
                    "ledger_associated",
                    "associated_bound",
                ),
                ("ledger-stale",),
                ("spec.ledger.terms:TERMS", "spec.ledger.bounds:BOUNDS"),
            ),
        ),
    ),
    Part(
        "Whole rows, from the operands to the bound",
        (
            Step(
                "One cast from the number itself",
                "A number is divided by its scale, the quotient is rounded, and the code is made "
                "of that. Midpoints between codes are numbers of fp32, so two roundings cost a "
                "17th and one u. A quotient that underflows has the code 0.",
                ("cast_of_number", "operand_cast_underflow", "division_is_argument"),
                ("e4m3-double-rounding", "cast-shrinks"),
                (f"{CAST}:cast_bound", f"{FORWARD}:grad_bound"),
            ),
            Step(
                "Codes of shares",
                "e over its group's scale, as a share of the row; P, which the ledger sees, may "
                "have underflowed where the share has not.",
                ("code_near",),
                ("e4m3-double-rounding", "relative-inverse"),
                (f"{SOFTMAX}:code_error",),
            ),
            Step(
                "Deltas that read the output",
                "Each number is what the roundings make of the one before, in any order of each "
                "sum (`dot_of`, `sum_of`: any tree of any permutation). No error is assumed: the "
                "right sides are the ledger's terms, underflow among them.",
                (
                    "stale_row",
                    "stale_row_codes",
                    "consistent_row",
                    "consistent_row_codes",
                    "associated_row",
                ),
                ("ledger-stale", "eq2"),
                ("spec.ledger.bounds:Bound.__call__", "spec.ledger.terms:TERMS"),
            ),
            Step(
                "Deltas of the row's own P and dP",
                "The same kernel with its own dot, divided by the sum of P, after a shift.",
                ("matched_row", "renormalized_row", "shifted_row"),
                ("matched-bound", "renormalized-delta", "shifted-delta"),
                ("spec.ledger.bounds:Bound.__call__", "spec.ledger.terms:TERMS"),
            ),
            Step(
                "The row after its cast",
                "Each number under its tile's scale; the sum of what casts take is added to the "
                "row's bound, whichever delta made it. Of a chain that carries its errors the last "
                "one is left, and a rounding a number: where a quotient underflows, the addition "
                "loses less than that.",
                ("after_nearest", "zero_sum_divided", "after_zero_sum"),
                ("cast-row-sum",),
                (f"{CAST}:cast_bound",),
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
    Part(
        "The contract with windows",
        (
            Step(
                "Its normaliser",
                "The saved reference is at most 3/2 above the largest logit and 1/2 below it, so "
                "l is above 1/4 and at most 2 n, whatever its roundings are.",
                ("saved_reference", "normaliser_range"),
                ("window-argument", "stale-maximum"),
                (f"{DELTA}:match_bound",),
            ),
            Step(
                "Its scales, its sum over windows, its quotient",
                "A tile's factor is one rounding more. Partial outputs of the tensor core are "
                "summed by fused additions, then 1 / l is multiplied. Where numerator and "
                "denominator are sums of e, P's own roundings stand beside them.",
                ("scaled_result", "windows_output", "balance_of_exponentials"),
                ("promotion-step", "two-roundings", "rescale-exact"),
                (f"{FORWARD}:accdp_bound", f"{FORWARD}:acc_bound", f"{DELTA}:balance_bound"),
            ),
            Step(
                "associated",
                "P is the forward's share rounded twice, and shares sum to 1 as codes do.",
                ("norm_associated", "prob_associated"),
                ("norm-perturbation",),
                (f"{SOFTMAX}:unit_sum_error", f"{SOFTMAX}:prob_bound"),
            ),
        ),
    ),
)
