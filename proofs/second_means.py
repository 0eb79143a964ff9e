"""Which lemmas are confirmed by something else than a second solver that reads the same formula.

Two solvers find a fault of one of them, not a formula that says something else than it means. These
do: an exhaustive run over all inputs, a theorem of Rocq that was written down apart, and a proof
object that no solver reads (which trusts the formula, but neither solver). A test asks that every
lemma has one of the first two.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dmverify.proofs.positivity_search import KEPT
from dmverify.proofs.registry import Lemma

THEOREM: Mapping[str, str] = MappingProxyType(
    {
        "add-no-underflow": "rnd_plus_error",
        "alpha-at-most-one": "no_positive_exponent",
        "bf16-store-tiny": "bf16_half_unit",
        "carry-clamped": "carry_16",
        "carry-exact": "carry_exact_far",
        "carry-shrinks": "carry_at_most_itself",
        "carry-telescopes": "zero_sum_identity",
        "carry-unclamped": "carry_grows",
        "cast-perturbation": "chain_perturbation",
        "cast-row-sum": "cast_of_quotients",
        "cast-set": "code_between",
        "cast-shrinks": "cast_at_most_itself",
        "cauchy-schwarz": "cauchy_schwarz",
        "centring-gradient": "centred_gradient",
        "centring-shift": "shifted_logits",
        "column-sum": "column_sums",
        "dead-row": "finite_reciprocal",
        "ds-code-bound": "code_times_share",
        "e4m3-equivariance": "code_power_of_two",
        "e4m3-monotone": "rounding_between",
        "e4m3-odd": "odd_code",
        "e4m3-saturation": "saturation_changes_nothing",
        "elem-error": "elem_error",
        "eq2": "eq2",
        "ex2-argument": "rounded_argument",
        "ex2-argument-fused": "fused_argument",
        "ex2-error": "ex2_worst",
        "exact-dot-float64": "exact_in_float64",
        "exp2-chord": "exp2_chord",
        "finite-arguments": "finite_differences",
        "flush-to-zero": "flushed_numbers",
        "ledger-associated": "ledger_associated",
        "ledger-consistent": "ledger_consistent",
        "ledger-matched": "any_delta",
        "ledger-stale": "ledger_stale",
        "lg2-error": "lg2_worst",
        "lg2-near-one": "lg2_worst_near_one",
        "lse-store": "lse_store",
        "matched-bound": "any_delta",
        "max-argument": "max_argument",
        "norm-perturbation": "unit_sum",
        "projected-dk": "projected",
        "promotion-step": "promotion",
        "rcp-error": "rcp_worst",
        "relative-composition": "composed",
        "relative-inverse": "inverse_of_sum",
        "renormalized-delta": "quotient_residue",
        "rescale-exact": "halving",
        "rn-candidate": "rnd_candidate",
        "rn-equivariance": "power_of_two",
        "rn-error": "rounding_error",
        "rn-error-subnormal": "rnd_error",
        "shifted-delta": "balance_shifted",
        "shifted-dominance": "heaviest_key",
        "stale-maximum": "lazy_reference",
        "sterbenz": "near_differences",
        "sum-any-tree": "sum_any_tree",
        "sum-dominated": "dominated",
        "sum-flush-to-zero": "flushed_sum",
        "sum-fma-chain": "inner_any_order",
        "sum-tree-height": "stated_order",
        "two-roundings": "two_roundings",
        "wgmma-natural": "natural_order",
        "wgmma-order-free": "order_free",
        "wgmma-partials": "partial_sums",
        "wgmma-rho-chained": "aligned_carried",
        "window-argument": "window_argument",
    }
)
"""By lemma, the theorem of Rocq that says at least as much; by certificate, the one that says it of
the worst input, whose exp and log other arithmetic than the certificate's encloses.

What is NaN and what is infinite is IEEE 754's definition, which the theorems' formats leave out:
``dead-row`` and ``finite-arguments`` are confirmed as the sizes that stay below the largest number.
"""

ALONE = "a second solver alone"


def second_means(entry: Lemma) -> tuple[str, ...]:
    """What confirms a lemma besides z3, the strongest first."""
    found = []
    if entry.sweep is not None:
        found.append("exhaustive run")
    if entry.id in THEOREM:
        found.append(f"theorem `{THEOREM[entry.id]}`")
    if entry.id in KEPT:
        found.append("proof object")
    return tuple(found) or (ALONE,)
