"""Which lemmas are confirmed by something else than a second solver that reads the same formula.

Two solvers find a fault of one of them, not a formula that says something else than it means. These
do: an exhaustive run over all inputs, a theorem of Rocq that was written down apart, and a proof
object that no solver reads (which trusts the formula, but neither solver).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dmverify.proofs.positivity_search import KEPT
from dmverify.proofs.registry import Lemma

THEOREM: Mapping[str, str] = MappingProxyType(
    {
        "add-no-underflow": "rnd_plus_error",
        "bf16-store-tiny": "bf16_half_unit",
        "carry-clamped": "carry_16",
        "carry-exact": "carry_exact",
        "carry-telescopes": "zero_sum_identity",
        "cast-row-sum": "zero_sum_cast",
        "column-sum": "column_sums",
        "e4m3-odd": "code_opp",
        "elem-error": "elem_error",
        "eq2": "eq2",
        "ledger-associated": "ledger_associated",
        "ledger-consistent": "ledger_consistent",
        "ledger-matched": "any_delta",
        "ledger-stale": "ledger_stale",
        "matched-bound": "any_delta",
        "norm-perturbation": "unit_sum",
        "relative-inverse": "inverse_of_sum",
        "renormalized-delta": "quotient_residue",
        "rn-candidate": "rnd_candidate",
        "rn-equivariance": "power_of_two",
        "rn-error-subnormal": "rnd_error",
        "shifted-delta": "balance_shifted",
        "stale-maximum": "lazy_reference",
        "sum-any-tree": "sum_any_tree",
        "sum-dominated": "dominated",
        "sum-fma-chain": "inner_any_order",
        "sum-tree-height": "stated_order",
        "wgmma-natural": "natural_order",
        "wgmma-rho-chained": "aligned_carried",
    }
)
"""By lemma, a theorem or a lemma of Rocq that says at least as much."""

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
