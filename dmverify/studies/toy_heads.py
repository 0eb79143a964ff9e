"""The toy heads of the article: random inputs of one fixed size, at a logit spread.

| set | inputs, before rounding to BF16 |
|---|---|
| gaussian | q, k, v, do standard normal; q times the spread |
| outlier | the same, every 16th value channel times 10, rows of do times exp(normal) |

Four heads of 512 tokens and 64 channels, causal. A seed's numbers are those of
``conformance.families.draws`` (Philox and our own Box-Muller, the same on every machine), and all
spreads and both sets of one seed share them. Source: "Delta-Matching" (2026-10-30); its seeds are
not public, so its figures are met up to the scatter between seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.elementary import F64, exp2
from dmverify.conformance.families.tensors import as_inputs, gaussian
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem

TOY = Problem(batch=1, heads=4, kv_heads=4, queries=512, keys=512, head_dim=64)
OUTLIER_STEP = 16
OUTLIER_FACTOR = 10.0
LOG2_E = float.fromhex("0x1.71547652b82fep+0")

Change = Callable[[Draws, Problem, dict[str, F64]], dict[str, F64]]


def _outlier(draws: Draws, problem: Problem, tensors: dict[str, F64]) -> dict[str, F64]:
    v = tensors["v"].copy()
    v[..., ::OUTLIER_STEP] *= OUTLIER_FACTOR
    tail = draws.normal("tail", (problem.batch, problem.queries, problem.heads, 1))
    return tensors | {"v": v, "do": tensors["do"] * exp2(tail * LOG2_E)}


INPUT_SETS: MappingProxyType[str, Change] = MappingProxyType(
    {"gaussian": lambda draws, problem, tensors: tensors, "outlier": _outlier}
)
"""How each set changes the normal numbers."""


def toy_heads(inputs: str, spread: float, *, seed: int, problem: Problem = TOY) -> Inputs:
    """The inputs of one set, spread and seed.

    Args:
        inputs: A name of ``INPUT_SETS``.
        spread: Factor of q, hence of the logits.
        seed: Seed of the draws.
        problem: Sizes, the article's unless said otherwise.
    """
    draws = Draws("toy-heads", seed)
    tensors = INPUT_SETS[inputs](draws, problem, gaussian(draws, problem))
    return as_inputs(tensors | {"q": tensors["q"] * spread})
