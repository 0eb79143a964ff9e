"""``expect``: how wrong a kernel that keeps a contract will be, before there is one.

Verdicts are about the contract: what a conforming kernel gives may still be far from attention. The
estimate (``spec.bounds.expected``) says how far, of drawn inputs of a shape or of given ones. Drawn
inputs are standard normal, q times the spread of the logits. Relative errors of such inputs hardly
depend on how many tokens, heads and sequences there are, so ``TOKENS`` and ``HEADS`` are evaluated
at the most; ``evaluated`` says which.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import isnan
from typing import Any

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.values import gaussian_heads
from dmverify.errors import InputError
from dmverify.spec.bounds.expected import OUTPUTS, Expected, expected
from dmverify.spec.case import Case
from dmverify.spec.contracts import Contract
from dmverify.spec.problem import Problem

TOKENS, HEADS = 1024, 2
CONTRACT_BOUND = "what the contract computes, element by element"
RELATIVE_TO = {
    **dict.fromkeys(OUTPUTS, CONTRACT_BOUND),
    "lse": f"{CONTRACT_BOUND}, in nats",
}
"""What the interval is around that ``verify`` judges an output by; attention has no part in it."""


@dataclass(frozen=True)
class Expectation:
    """What ``expect`` found.

    Attributes:
        contract: The numerics.
        problem: What was asked about.
        evaluated: What the estimate was made on.
        errors: By output, from attention.
    """

    contract: Contract
    problem: Problem
    evaluated: Problem
    errors: dict[str, Expected]

    def to_json(self) -> dict[str, Any]:
        """Ready for ``json.dumps(..., allow_nan=False)``; null where there is no estimate."""
        rows = []
        for name, one in self.errors.items():
            sizes = {
                key: None if isnan(x) else x
                for key, x in (("typical", one.typical), ("most", one.most))
            }
            rows.append(
                {
                    "output": name,
                    **sizes,
                    "reason": one.reason,
                    "bound_relative_to": RELATIVE_TO[name],
                }
            )
        return {
            "contract": self.contract.to_json(),
            "problem": asdict(self.problem),
            "evaluated": asdict(self.evaluated),
            "outputs": rows,
        }


def expect_shape(
    contract: Contract, problem: Problem, *, spread: float = 1.0, seed: int = 0
) -> Expectation:
    """The errors on drawn inputs.

    Args:
        contract: The numerics.
        problem: Sizes, mask, scale.
        spread: Standard deviation of the logits, about.
        seed: Seed of the inputs and of the random roundings.

    Raises:
        InputError: If the spread is not above 0.
    """
    if not spread > 0 or spread == float("inf"):
        raise InputError(
            f"spread {spread:g}",
            rule="the spread of the logits is above 0",
            fix="pass spread=1 (--spread 1)",
        )
    kv_heads = max(1, min(problem.kv_heads, HEADS // problem.group))
    longest = max(problem.queries, problem.keys, 1)
    share = min(1.0, TOKENS / longest)
    small = replace(
        problem,
        batch=min(problem.batch, 1),
        heads=kv_heads * problem.group,
        kv_heads=kv_heads,
        queries=round(problem.queries * share),
        keys=round(problem.keys * share),
        softmax_scale=problem.scale,
    )
    inputs = gaussian_heads(Draws("expect", seed), small, spread=spread)
    return Expectation(
        contract, problem, small, expected(contract, small, inputs=inputs, seed=seed)
    )


def expect_case(contract: Contract, case: Case, *, seed: int = 0) -> Expectation:
    """The errors on the inputs of a case."""
    errors = expected(contract, case.problem, inputs=case.inputs, seed=seed)
    return Expectation(contract, case.problem, case.problem, errors)
