"""Rows of many heads on one block have the ledger that they have alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dmverify.conformance.families import generate
from dmverify.conformance.kernels.emulator import Emulator
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.errors import InputError
from dmverify.spec.contracts import Contract, get_contract
from dmverify.spec.contracts.deltas import DeltaMode
from dmverify.spec.ledger import Ledger, ledger, row_block

SHAPES = (
    "batch=3,heads=4,kv_heads=2,queries=5,keys=9,head_dim=32,causal=1",
    "batch=40,heads=1,kv_heads=1,queries=1,keys=2,head_dim=32,causal=0",
    "batch=2,heads=3,kv_heads=1,queries=70,keys=66,head_dim=64,causal=1",
    "batch=2,heads=2,kv_heads=2,queries=3,keys=0,head_dim=32,causal=0",
)
CONTRACTS = (
    "article",
    "article:delta=shifted",
    "upstream:delta=renormalized",
    "article:delta=stale",
)
WINDOWS = (
    "bundled",
    "bundled:delta=shifted,ds_cast=zero-sum",
    "bundled:delta=renormalized,normaliser=unrounded",
)


def made(case_id: str, contract: str, spoil: tuple[str, int] | None) -> Ledger:
    case = generate(case_id, contract=contract)
    kernel = Simulation() if contract.startswith(("article", "upstream")) else Emulator()
    outputs, internals = kernel.backward(case), kernel.internals(case)
    if spoil is not None and getattr(internals, spoil[0]).size:
        array = getattr(internals, spoil[0]).copy()
        array.ravel()[spoil[1] % array.size] = np.nan
        internals = replace(internals, **{spoil[0]: array})
    with np.errstate(all="ignore"):
        return ledger(
            get_contract(contract),
            case.problem,
            inputs=case.inputs,
            internals=internals,
            outputs=outputs,
        )


@pytest.mark.parametrize("spoil", [None, ("v", 100), ("p", 7), ("k", 0)])
@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_stacked_rows_have_the_ledger_of_rows_alone(
    shape: str, contract: str, spoil: tuple[str, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_equal(f"gaussian/spread-2,{shape}@0", contract, spoil, monkeypatch)


@pytest.mark.parametrize("spoil", [None, ("v", 100), ("p", 7)])
@pytest.mark.parametrize("contract", WINDOWS)
@pytest.mark.parametrize("shape", [*SHAPES[:2], SHAPES[3]])
def test_so_have_those_with_windows(
    shape: str, contract: str, spoil: tuple[str, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_equal(f"gaussian/spread-2,{shape}@0", contract, spoil, monkeypatch)


def test_a_head_of_far_logits_stays_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bounds read its keys one by one."""
    case_id = f"logit-size/logits-1e5,{SHAPES[1]},softmax_scale=20@0"
    require_equal(case_id, "bundled", None, monkeypatch)
    near = f"gaussian/spread-2,{SHAPES[1]}@0"
    monkeypatch.undo()
    assert len(made(near, "bundled", None).exact) == 1
    assert len(made(case_id, "bundled", None).exact) > 1


def require_equal(
    case_id: str, contract: str, spoil: tuple[str, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacked = made(case_id, contract, spoil)
    monkeypatch.setattr(row_block, "_together", lambda *args: None)
    alone = made(case_id, contract, spoil)
    assert len(stacked.exact) <= len(alone.exact)
    for name in ("at", "residual", "size", "closes", "defined"):
        np.testing.assert_array_equal(getattr(stacked, name), getattr(alone, name), err_msg=name)
    for term in alone.names:
        assert stacked.fractions(term) == alone.fractions(term)
        np.testing.assert_array_equal(stacked.bounds[term], alone.bounds[term], err_msg=term)
        np.testing.assert_array_equal(stacked.reasons(term), alone.reasons(term))


def test_small_heads_share_a_sheet_where_no_bound_reads_a_token() -> None:
    case_id = f"gaussian/spread-2,{SHAPES[1]}@0"
    assert len(made(case_id, "article", None).exact) == 1
    assert len(made(case_id, "article:delta=stale", None).exact) == 40


def test_a_bound_that_reads_a_token_among_others_rows_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case_id = f"gaussian/spread-2,{SHAPES[1]}@0"
    by_row = DeltaMode("a dot with dO as it came in", reads_input=True)
    monkeypatch.setattr(Contract, "delta_mode", by_row)
    with pytest.raises(InputError, match="finite numbers"):
        made(case_id, "article:delta=stale", None)
