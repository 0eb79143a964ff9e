"""Which rounding carries an error, and in which row, in words with that row's numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dmverify.attack.engines.through import served
from dmverify.attack.evaluate import Evaluator
from dmverify.attack.first_order import FirstOrder, first_order
from dmverify.attack.reference import exact
from dmverify.attack.stack import Stack
from dmverify.spec.arithmetic import Double
from dmverify.spec.attention import interpret
from dmverify.spec.contracts import get_contract

ROWS = {"o": "query", "dq": "query", "dk": "key", "dv": "key"}
SAID = {
    "Q": "the rounding of Q to E4M3",
    "K": "the rounding of K to E4M3",
    "V": "the rounding of V to E4M3",
    "dO": "the rounding of dO to E4M3",
    "weights": "the rounding of the forward's weights to E4M3",
    "P": "the rounding of P to E4M3",
    "dS": "the rounding of dS to E4M3",
    "delta": "delta, which is not the row sum of P dP",
    "store": "the store in BF16",
}
TOLD = 0.1  # of the error: smaller parts are not told


@dataclass(frozen=True)
class Explanation:
    """Of one candidate.

    Attributes:
        estimate: Term by term.
        words: Sentences.
    """

    estimate: FirstOrder
    words: tuple[str, ...]


def explain(evaluator: Evaluator, candidate: Stack) -> Explanation:
    """Explains the error of the attacked output.

    Raises:
        InputError: As ``first_order`` does.
    """
    estimate = first_order(evaluator, candidate)
    words = [_carriers(estimate), _row(evaluator, candidate)]
    contract = get_contract(evaluator.contract)
    if (stated := served(contract)) != contract.name:
        words.insert(0, f"the shares are those of the simulation under {stated}, in its place")
    return Explanation(estimate, tuple(words))


def _carriers(estimate: FirstOrder) -> str:
    parts = [(term.made / max(estimate.error, 1e-300), term.name) for term in estimate.terms]
    told = [f"{share:.0%} by {SAID[name]}" for share, name in parts if abs(share) >= TOLD]
    rest = 1 - sum(share for share, _ in parts)
    second = f"; {rest:.0%} is of second order" if abs(rest) >= TOLD else ""
    return f"the error is made {', '.join(told) or 'by many small parts'}{second}"


def _row(evaluator: Evaluator, candidate: Stack) -> str:
    """The row that carries most of the error, with its numbers."""
    name, problem = evaluator.objective.name, evaluator.problem
    outputs = evaluator.kernel.backward(candidate.case(problem, evaluator.contract))
    got = torch.from_numpy(getattr(outputs, name)).double()[0]
    due = exact(problem, evaluator.seen_by_kernel(candidate), sizes=False).outputs[name][0]
    errors = (got - due).square().sum(-1)
    row, head = divmod(int(torch.argmax(errors)), errors.shape[1])
    share = float(errors[row, head] / errors.sum().clamp_min(1e-300))
    size, wrong = float(due[row, head].norm()), float((got - due)[row, head].norm())
    said = (
        f"{ROWS[name]} {row} of head {head} carries {share:.0%} of it (of its square): its {name} "
        f"has norm {size:.3g} and is off by {wrong:.3g}"
    )
    return said + (_numbers(evaluator, candidate, row, head) if ROWS[name] == "query" else "")


def _numbers(evaluator: Evaluator, candidate: Stack, row: int, head: int) -> str:
    """P, delta and dS of a query, of exact attention."""
    case = candidate.case(evaluator.problem, evaluator.contract)
    run = interpret(
        get_contract(evaluator.contract), case.problem, case.inputs, Double(), internals=True
    )
    if run.internals is None:
        return ""
    p, ds = run.internals.p[0, head, row], run.internals.ds[0, head, row]
    delta, at = float(run.internals.delta[0, head, row]), int(p.argmax())
    return (
        f"; its largest P is {float(p[at]):.3g} at key {at}, its delta {delta:.3g}, "
        f"its sum of abs(dS) {float(abs(ds).sum()):.3g}"
    )
