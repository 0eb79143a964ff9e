"""Rows whose dP is subnormal: what underflow takes of e dP is multiplied with 1 / l, up to 4."""

import numpy as np

from dmverify.spec.arithmetic import Bits
from dmverify.spec.attention import interpret
from dmverify.spec.case import Inputs
from dmverify.spec.ledger import ledger
from dmverify.spec.ledger.bounds import correction
from dmverify.spec.problem import Problem
from tests.ledger.toy import bf16, contract_of

PROBLEM = Problem(1, 1, 1, 64, 2, 32, causal=False)


def taken(seed):
    """Two keys, dP of a few times the smallest number."""
    rng = np.random.default_rng(seed)
    shapes = PROBLEM.shapes()
    tensors = {name: rng.standard_normal(shapes[name]) for name in ("q", "k", "v", "do")}
    tensors["v"] *= 2.0**-73
    tensors["do"] *= 2.0 ** (-58 + rng.uniform(-4, 4))
    inputs = Inputs(**{name: bf16(x) for name, x in tensors.items()})
    contract = contract_of("matched", "bundled")
    with np.errstate(all="ignore"):
        made = interpret(contract, PROBLEM, inputs, Bits(), internals=True)
        parts = {"internals": made.internals, "outputs": made.outputs}
        return ledger(contract, PROBLEM, inputs=inputs, **parts)


def test_conforming_rows_stay_inside():
    books = [taken(seed) for seed in range(24)]
    assert all(book.ok for book in books)
    assert max(book.margin("match").max() for book in books) > 0.1


def test_without_the_reciprocal_some_would_be_outside(monkeypatch):
    monkeypatch.setattr(correction, "RECIPROCAL_MAX", 0.0)
    assert not all(taken(seed).ok for seed in range(24))
