"""One fault a term: it pushes that term, and no other, out of its bound; the sum stays exact."""

from __future__ import annotations

import pytest

from dmverify.spec.ledger import TERMS_OF_MODE, ledger
from dmverify.spec.problem import Problem
from tests.ledger.toy import contract_of, make_inputs, run

PROBLEM = Problem(1, 2, 1, 96, 160, 64, causal=False)

# fault: the term it belongs to, and an offset of V where the fault needs one to matter
FAULTS = {
    "prob": ("prob", 0.0),
    "grad": ("grad", 0.0),
    "acc": ("acc", 4.0),
    "out": ("out", 0.0),
    "dot": ("dot", 0.0),
    "norm": ("norm", 0.0),
    "accdP": ("accdP", 0.0),
    "elem": ("elem", 64.0),
    "vmis": ("vmis", 0.0),
    "match": ("match", 0.0),
    "rec": ("rec", 0.0),
    "balance": ("balance", 0.0),
    "cast": ("cast", 0.0),
}


def faults_of(mode):
    """In associated the rounded P is the backward's too; its fault is to use the unrounded one."""
    terms = (*TERMS_OF_MODE[mode], "cast", *(("rec",) if mode == "matched" else ()))
    renamed = {"prob": "prob of associated"} if mode == "associated" else {}
    return [(mode, renamed.get(term, term), term) for term in terms]


CASES = [case for mode in TERMS_OF_MODE for case in faults_of(mode)]


def outside(taken):
    return [name for name in taken.names if (taken.margin(name) > 1).any()]


@pytest.mark.parametrize(("mode", "fault", "term"), CASES)
def test_a_fault_leaves_its_own_term_outside(mode, fault, term):
    inputs = make_inputs(PROBLEM, 3, spread=2.0, offset=FAULTS[term][1])
    made = run(PROBLEM, contract_of(mode), inputs, fault)
    taken = ledger(made.contract, PROBLEM, **made.arguments())
    assert taken.closes.all()
    assert outside(taken) == [term]
    assert not taken.ok


@pytest.mark.parametrize("offset", [0.0, 4.0, 64.0])
@pytest.mark.parametrize("mode", TERMS_OF_MODE)
def test_without_a_fault_every_term_is_inside(mode, offset):
    made = run(PROBLEM, contract_of(mode), make_inputs(PROBLEM, 3, spread=2.0, offset=offset))
    taken = ledger(made.contract, PROBLEM, **made.arguments())
    assert taken.ok
    assert outside(taken) == []


def test_a_dropped_carry_is_outside_the_zero_sum_bound():
    contract = contract_of("matched", ds_cast="zero-sum")
    for fault, expected in ((None, []), ("carry", ["cast"])):
        made = run(PROBLEM, contract, make_inputs(PROBLEM, 3, spread=2.0), fault)
        assert outside(ledger(contract, PROBLEM, **made.arguments())) == expected


def test_a_stale_delta_is_outside_where_matched_is_promised():
    made = run(PROBLEM, contract_of("stale"), make_inputs(PROBLEM, 3, spread=2.0))
    taken = ledger(contract_of("matched"), PROBLEM, **made.arguments())
    assert outside(taken) == ["match"]
    assert taken.closes.all()
