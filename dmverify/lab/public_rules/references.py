"""The references that the public suites would compare with, from one case.

exact      the contract's steps in float64 with every cast off: ordinary attention
operands   the same steps in float32 with only the operands' cast on
rough      O = round(P) V on those operands, P normalised and rounded to E4M3, O stored in BF16
"""

from __future__ import annotations

import numpy as np

from dmverify.lab.public_rules.rule import References
from dmverify.spec.arithmetic import Double, Single
from dmverify.spec.attention import interpret
from dmverify.spec.case import F64, Case, Internals
from dmverify.spec.contracts import get_contract
from dmverify.spec.formats import BF16, E4M3


def references(case: Case) -> References:
    """The references of one case."""
    contract, problem, inputs = get_contract(case.contract), case.problem, case.inputs
    exact = interpret(contract, problem, inputs, Double())
    single = Single(frozenset({"operands"}))
    operands = interpret(contract, problem, inputs, single, internals=True)
    assert operands.internals is not None
    rough = {"o": _rough(operands.internals, problem.group)}
    return References(exact.values, operands.values, rough)


def _rough(inside: Internals, group: int) -> F64:
    """O with P rounded after it was normalised, (B, N, H, D)."""
    p = E4M3.round(inside.p.astype(np.float32), saturate=True)
    v = np.repeat(inside.v, group, axis=1).astype(np.float32)
    with np.errstate(all="ignore"):
        o = BF16.round(p @ v, saturate=False)
    return np.asarray(o.swapaxes(1, 2), np.float64)
