"""The simulation in blocks of queries: rows as in one block, sums of tokens up to their order."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from dmverify.conformance.families import generate
from dmverify.conformance.kernels import simulation
from dmverify.conformance.kernels.simulation import Simulation

CASE = "gaussian/spread-2,batch=2,heads=4,kv_heads=2,queries=300,keys=200,head_dim=32,causal=1@0"
ROWS = ("o", "lse", "dq", "delta")


@pytest.mark.parametrize("contract", ["article", "article:delta=shifted", "upstream:delta=stale"])
def test_blocks_give_what_one_block_gives(contract: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = generate(CASE, contract=contract)
    whole, inside = Simulation().backward(case), Simulation().internals(case)
    forward = Simulation().forward(case)
    monkeypatch.setattr(simulation, "BLOCK", 1)
    cut, inside_cut = Simulation().backward(case), Simulation().internals(case)
    forward_cut = Simulation().forward(case)
    np.testing.assert_array_equal(forward.o, forward_cut.o)
    np.testing.assert_array_equal(forward.lse, forward_cut.lse)
    for name, array in whole.items():
        tolerance = 1e-6 if name in ROWS else 2.0**-7
        np.testing.assert_allclose(getattr(cut, name), array, rtol=tolerance, atol=1e-5)
    for field in fields(inside):
        one, other = (getattr(x, field.name) for x in (inside, inside_cut))
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6, err_msg=field.name)


def test_large_cases_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    case = generate(CASE, contract="article")
    assert len(list(Simulation()._blocks(case))) == 1
    monkeypatch.setattr(simulation, "BLOCK", 1)
    assert [len(ops.seen) for ops in Simulation()._blocks(case)] == [128, 128, 44]
