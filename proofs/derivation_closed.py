"""The derivation's end: what is put together of errors of steps, and enclosures."""

from __future__ import annotations

from dmverify.proofs.steps import Part, Step

_CLOSED, _ERRORS = "spec.bounds.closed", "spec.bounds.errors"
_ENCLOSURE = "spec.arithmetic.enclosure"

CLOSED: tuple[Part, ...] = (
    Part(
        "Closed forms put together",
        (
            Step(
                "Operands, by their codes",
                "Norms are measured of codes times scales, and a number may be a 16th of its code "
                "away from it, where it is a 17th of itself.",
                ("operand_of_code", "norm_of_codes", "operands_moved"),
                ("e4m3-error-of-code",),
                (f"{_ERRORS}:Errors.row_of", f"{_ERRORS}:Errors.moved"),
            ),
            Step(
                "Exponentials and LSE",
                "Errors of a logit, of an argument and of a function add up in the logarithm. A "
                "sum without cancellation is off by a factor, so its logarithm by a number.",
                (
                    "logarithm_of_an_error",
                    "exponent_closed",
                    "logarithm_of_a_sum",
                    "lse_closed",
                ),
                ("lse-store", "lg2-error", "lg2-near-one"),
                (f"{_ERRORS}:Errors.exponent", f"{_CLOSED}:_lse"),
            ),
            Step(
                "Outputs",
                "A logit off by e moves a share by exp(2 e) - 1. Errors of weights add over a row, "
                "and everything after them compounds. Where O is divided by the sum of its codes, "
                "what codes lose counts twice, and their sum has an error of its own. dQ is a "
                "product over keys, dK and dV over the queries of a group.",
                (
                    "moved_share",
                    "weights_of_codes",
                    "output_closed",
                    "delta_closed",
                    "row_closed",
                    "product_closed",
                ),
                ("relative-composition",),
                (f"{_CLOSED}:attention_output", f"{_CLOSED}:gradient_row", f"{_CLOSED}:_gradient"),
            ),
            Step(
                "A delta of the row's own products",
                "A sum over P, or a quotient of two.",
                ("delta_of_row", "delta_of_quotient"),
                ("matched-bound", "shifted-delta"),
                (f"{_CLOSED}:_delta_from_rows",),
            ),
            Step(
                "Casts of dS by elements and by rows",
                "A carried code is off by the carry that it was given and the one that it leaves.",
                ("carried_element", "carried_row"),
                ("cast-perturbation", "carry-unclamped"),
                (f"{_CLOSED}:cast_element", f"{_CLOSED}:cast_row"),
            ),
            Step(
                "Row sums of a delta that reads the output",
                "Each term of the ledger at most its closed form, in one sum, with the sizes that "
                "steps leave to the next ones and with underflow. Consistent has no codes of dO "
                "between; associated has one P and no store.",
                ("stale_closed", "from_output_closed"),
                ("ledger-stale",),
                ("spec.bounds.residual:residual",),
            ),
            Step(
                "The same with what underflow takes",
                "Beside each relative error an absolute one, which does not shrink with the "
                "operands: where V is subnormal in BF16, half the smallest BF16 of O is most.",
                ("stale_closed_row", "consistent_closed_row", "associated_closed_row"),
                ("ledger-stale", "bf16-store-tiny", "rn-error-subnormal"),
                ("spec.bounds.residual:residual",),
            ),
        ),
    ),
    Part(
        "Enclosures",
        (
            Step(
                "One operation",
                "Rounding is monotone, so the ends of an interval, rounded, hold what is rounded "
                "between them; products and quotients have their ends at corners. A result is a "
                "binary32 number, so real ends may be moved to the numbers inside them.",
                (
                    "sum_enclosed",
                    "difference_enclosed",
                    "product_enclosed",
                    "fused_enclosed",
                    "quotient_enclosed",
                    "exact_enclosed",
                    "both_enclosed",
                    "inward",
                ),
                ("rn-equivariance",),
                (f"{_ENCLOSURE}:Enclosure.mul", f"{_ENCLOSURE}:Enclosure.fma"),
            ),
            Step(
                "Sums and dots in any order",
                "Whatever tree a kernel adds in; a dot by the middles and radii of its operands.",
                ("summed_enclosed", "dotted_enclosed"),
                ("sum-any-tree", "sum-fma-chain"),
                ("spec.arithmetic.enclosure_ends:any_order", f"{_ENCLOSURE}:Enclosure.dot"),
            ),
            Step(
                "What a row's numbers have in common",
                "A share rises with its own exponential and falls with the others; a sum that has "
                "exp(0) in it is not below it.",
                ("share_enclosed", "sum_at_least"),
                ("sum-any-tree",),
                (
                    "spec.arithmetic.enclosure_softmax:share_ends",
                    "spec.arithmetic.enclosure_softmax:with_largest",
                ),
            ),
            Step(
                "A whole kernel",
                "By induction over its steps, of any number: sums in any order, functions that "
                "answer whatever their error allows, choices that fall either way. If the "
                "intervals hold the call's numbers, they hold every result.",
                ("kernel_enclosed",),
                ("cast-set", "ex2-error"),
                (f"{_ENCLOSURE}:Enclosure.cast", f"{_ENCLOSURE}:Enclosure.exp2"),
            ),
        ),
    ),
)
