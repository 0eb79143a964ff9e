"""Narrow faults: the levels reach the condition of each, and its harm is seen there."""

import pytest

from dmverify.conformance.adapter import Supported
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.lab.mutants.narrow import NARROW, Narrow, Narrowed
from dmverify.lab.mutants.narrow.harms import HARMS
from dmverify.lab.mutants.narrow.hunt import hunt

CASE = "gaussian/spread-2,batch=2,heads=4,kv_heads=2,queries=70,keys=80,head_dim=32@0"

# Conditions on one value of a class together with a level of the shape: smoke has every class under
# every level, and each of its values under some; full has them under more.
ONE_VALUE = {"zero-d128", "alike-batch-2"}


def test_there_are_at_least_sixty():
    assert len(NARROW) >= 60
    assert {fault.harm for fault in NARROW.values()} <= HARMS.keys()


def test_smoke_rejects_all_that_a_pair_decides():
    faults = [f for f in NARROW.values() if f.pair and f.id not in ONE_VALUE]
    assert len(faults) >= 50
    assert [row.fault for row in hunt("smoke", faults) if not row.case] == []


def test_full_rejects_the_rest():
    faults = [f for f in NARROW.values() if not f.pair or f.id in ONE_VALUE]
    assert [row.fault for row in hunt("full", faults) if not row.case] == []


def test_a_condition_that_no_case_meets_survives():
    nowhere = Narrow("nowhere", "a batch of 1,000,003", lambda p: p.batch == 1_000_003, "doubled")
    (row,) = hunt("smoke", [nowhere])
    assert (row.met, row.case) == (0, "")


@pytest.mark.parametrize("harm", HARMS)
def test_every_harm_changes_a_plain_answer_only_where_the_condition_holds(harm):
    case = generate(CASE, contract="article")
    right = Simulation().backward(case)
    never = Narrow("never", "never", lambda p: False, harm)
    always = Narrow("always", "always", lambda p: True, harm)
    kernels = [Narrowed(Simulation(), fault) for fault in (never, always)]
    assert all(isinstance(kernel.supports(case), Supported) for kernel in kernels)
    same, harmed = (kernel.backward(case) for kernel in kernels)
    assert all((getattr(same, n) == x).all() for n, x in right.items())
    if harm != "swallowed":  # it needs a NaN
        assert any((getattr(harmed, n) != x).any() for n, x in right.items())
