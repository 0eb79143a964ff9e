"""Inputs of 512 keys whose row sum of dS comes within a factor of two of its closed form.

**Matched.** Key 0 holds all of P but 2^-24 of it for each other key, and its dP is the opposite of
theirs. A kernel that sums the row in order, key 0 first, loses every other key twice: in l, so that
P sums to 1 + 511 * 2^-24, and in delta. Both losses have one sign.

**Stale.** One key of each group of 64 has the largest e and the others 272 / 448 of it, a tie that
rounds down to 256: P's codes lose 1/17 of nearly all of P. dO is 304 / 448 of its block's largest,
a tie that rounds up to 320.

The softmax scale sets the distance of the keys; their mean is near 0, so that centring keeps them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dmverify.spec.attention import interpret
from dmverify.spec.bounds import measure, residual
from dmverify.spec.case import F64, Inputs
from dmverify.spec.contracts import Contract, get_contract
from dmverify.spec.ledger import ledger
from dmverify.spec.margin import margin_of
from dmverify.spec.problem import Problem
from dmverify.studies.bounds.kernels import InOrder

KEYS, CHANNELS, GROUP = 512, 64, 64
PROBLEM = Problem(1, 1, 1, 2, KEYS, CHANNELS, causal=False)


@dataclass(frozen=True)
class Attained:
    """One constructed input.

    Attributes:
        contract: Its contract.
        observed: |row sum of dS| of row 0.
        bound: The closed form.
        terms: The sum of the bounds of the row's own terms.
    """

    contract: str
    observed: float
    bound: float
    terms: float

    @property
    def share(self) -> float:
        """observed / bound."""
        return float(margin_of(self.observed, self.bound))

    @property
    def share_of_terms(self) -> float:
        """observed / terms."""
        return self.observed / self.terms


def attained() -> tuple[Attained, ...]:
    """Both constructions."""
    return (_judged(*_matched()), _judged(*_stale()))


def _judged(contract: Contract, problem: Problem, inputs: Inputs) -> Attained:
    with np.errstate(all="ignore"):
        run = interpret(contract, problem, inputs, InOrder(), internals=True)
    assert run.internals is not None
    book = ledger(contract, problem, inputs=inputs, internals=run.internals, outputs=run.outputs)
    bound = residual(contract, problem=problem, norms=measure(contract, problem, inputs))
    terms = float(sum(book.bounds[name][0] for name in book.terms))
    return Attained(contract.name, float(abs(book.residual[0])), bound.value, terms)


def _matched() -> tuple[Contract, Problem, Inputs]:
    k = _keys(np.where(np.arange(KEYS) == 0, KEYS, -1.0))
    sign = np.where(np.arange(KEYS) == 0, 1.0, -1.0)
    v = np.broadcast_to(129 / 128 * sign[:, None], (KEYS, CHANNELS))  # from 1 on an ulp is 2^-23
    gap = -math.log(0.99 * 2.0**-24) / (KEYS + 1)
    return _call("article:delta=matched", k, v, np.ones((2, CHANNELS)), gap)


def _stale() -> tuple[Contract, Problem, Inputs]:
    k = _keys(np.where(np.arange(KEYS) % GROUP == 0, GROUP - 1.0, -1.0))
    do = np.zeros((2, CHANNELS))
    do[0], do[1, 0] = 304.0, 448.0
    code = 7 * (GROUP - 1) / 448  # what -1 becomes beside 63
    gap = -math.log(271.9 / 448) / (GROUP - 1 + code)
    return _call("article:delta=stale", k, np.ones((KEYS, CHANNELS)), do, gap)


def _keys(level: F64) -> F64:
    k = np.zeros((KEYS, CHANNELS))
    k[:, 0] = level
    return k


def _call(name: str, k: F64, v: F64, do: F64, scale: float) -> tuple[Contract, Problem, Inputs]:
    q = np.zeros((2, CHANNELS))
    q[:, 0] = 1.0
    tensors = {"q": q, "k": k, "v": v, "do": do}
    inputs = Inputs(**{n: x.astype(np.float32)[None, :, None] for n, x in tensors.items()})
    return get_contract(name), replace(PROBLEM, softmax_scale=scale), inputs
