"""Lengths around the sizes of instructions, windows and blocks; unequal lengths; groups; empty."""

from __future__ import annotations

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.family import Variant
from dmverify.conformance.families.tensors import as_inputs, gaussian
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem

EQUAL = (1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 191)
UNEQUAL = ((1, 129), (17, 129), (64, 65), (65, 64), (129, 17), (191, 1), (128, 191))
GROUPS = (1, 3, 7, 8)

LENGTHS = {
    **{f"n{n}": Variant(problem={"queries": n, "keys": n}) for n in EQUAL},
    **{f"q{q}-k{k}": Variant(problem={"queries": q, "keys": k}) for q, k in UNEQUAL},
    **{
        f"q{q}-k{k}-full": Variant(problem={"queries": q, "keys": k, "causal": False})
        for q, k in ((17, 129), (129, 17), (65, 65))
    },
    **{f"group-{g}": Variant(problem={"heads": 2 * g, "kv_heads": 2}) for g in GROUPS},
    "no-queries": Variant(problem={"queries": 0}, flags=("empty",)),
    "no-keys": Variant(problem={"keys": 0}, flags=("empty",)),
    "no-keys-full": Variant(problem={"keys": 0, "causal": False}, flags=("empty",)),
    "no-batch": Variant(problem={"batch": 0}, flags=("empty",)),
    **{f"head-dim-{d}": Variant(problem={"head_dim": d}) for d in (32, 96, 128, 256)},
    "two-batches": Variant(problem={"batch": 2, "heads": 3, "kv_heads": 3}),
    # Ten tiles of 64: a ring of up to nine stages is used again. The family ``long`` goes on.
    "q5-k577": Variant(problem={"queries": 5, "keys": 577}),
    "q577-k5-full": Variant(problem={"queries": 577, "keys": 5, "causal": False}),
    # Two batches hide a batch stride that is doubled, or an index that is 0 or 1.
    "three-batches": Variant(problem={"batch": 3, "heads": 3, "kv_heads": 3, "keys": 130}),
}


# The frozen rows give other variants every pair of such lengths; these no row has.
IN_SMOKE = (
    "n1", "n2", "n16", "q1-k129", "q191-k1", "q129-k17-full",
    "no-queries", "no-keys", "no-keys-full", "no-batch",
    "q5-k577", "q577-k5-full", "three-batches",
)  # fmt: skip


def lengths(draws: Draws, problem: Problem) -> Inputs:
    """Gaussian tensors; the sizes are the point."""
    return as_inputs(gaussian(draws, problem))
