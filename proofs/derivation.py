"""The derivation of the bounds as numbered steps: words by hand, formulas from theorems and code.

``theory`` makes the pages of docs/theory of this. A step has no number of its own and no formula:
the number is its place, the formula is the theorem's as ``statements`` reads it, the line is the
code's as it stands. Arithmetic is here; the softmax, rows and columns are in
``derivation_rows``, closed forms and enclosures in ``derivation_closed``.
"""

from __future__ import annotations

from dmverify.proofs.derivation_closed import CLOSED
from dmverify.proofs.derivation_rows import ROWS
from dmverify.proofs.steps import CAST, FORWARD, SIZES, SOFTMAX, Part, Step

ARITHMETIC: tuple[Part, ...] = (
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
                (f"{SIZES}:sum_error",),
            ),
            Step(
                "An inner product in any order",
                "Products are rounded, or fused into an addition. Underflow moves a product by at "
                "most eta before anything else is rounded, so its share is rounded with the rest.",
                ("rnd_error", "inner_any_order", "match_any_order", "channel_dot"),
                ("sum-fma-chain", "rn-error-subnormal"),
                (f"{SIZES}:dot_error", f"{SIZES}:row_order_error"),
            ),
            Step(
                "A stated order",
                "Where the order is known, what counts is the roundings on the way of a term: a "
                "chain of eight keys, its partner, one step a window, two folds of lanes.",
                ("stated_order", "stated_sum", "match_stated_order"),
                ("sum-tree-height",),
                (f"{SIZES}:path", f"{SIZES}:channel_error"),
            ),
            Step(
                "A sum of which one term is most",
                "Follow the largest term from its leaf to the root. What it meets bounds the error "
                "of the meeting, so a one-hot row costs little whatever its length is.",
                ("dominated",),
                ("sum-dominated",),
                (f"{SIZES}:dominated",),
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
                (f"{FORWARD}:accdp_bound", f"{FORWARD}:acc_bound"),
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
                ("spec.scaling.rules:get_rule", f"{CAST}:_unsaturated"),
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
                (f"{CAST}:cast_bound", f"{CAST}:half_unit"),
            ),
            Step(
                "Codes of operands and of P",
                "The scale, its inverse and the product are rounded before the code is.",
                ("operand_cast", "scaled_cast", "code_error_coded", "grad_known"),
                ("e4m3-double-rounding", "window-code", "max-code-256"),
                (f"{FORWARD}:grad_bound", f"{SOFTMAX}:code_error"),
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
                (f"{CAST}:cast_bound", "spec.bounds.residual:cast_of_rows"),
            ),
            Step(
                "The BF16 store",
                "Half a unit, at least half the smallest number.",
                ("bf16_store", "bf16_half_unit"),
                ("bf16-store", "bf16-store-tiny", "bf16-overflow"),
                (f"{FORWARD}:out_bound", "spec.bounds.columns:store_bound"),
            ),
        ),
    ),
)

PARTS: tuple[Part, ...] = (*ARITHMETIC, *ROWS, *CLOSED)
