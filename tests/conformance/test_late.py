"""Kernels that are right until something is used again: only the cases made for it tell."""

import numpy as np
import pytest

import dmverify
from dmverify.conformance.checks.bands import compare
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.late import BLOCKS, LATE, ROUND
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.selection import select, select_ids
from dmverify.conformance.verdict import Verdict
from dmverify.spec.contracts import get_contract
from dmverify.spec.enclosure import enclosure

# Of smoke's cases those that are there for such faults, and the largest of the others.
NEW = {f"lengths/{name}@0" for name in ("three-batches", "q5-k577", "q577-k5-full")}
LARGEST = ("positive-v/short@0", "lengths/two-batches@0")


@pytest.fixture(scope="module")
def answered():
    """Smoke's cases but the new ones, with the simulation's answers."""
    cases = [case for case in select("smoke", "article", seed=0) if case.id not in NEW]
    assert NEW < set(select_ids("smoke", seed=0))
    assert max(case.problem.keys for case in cases) <= ROUND
    assert max(case.problem.batch for case in cases) <= 2
    assert max(case.problem.batch * case.problem.heads for case in cases) <= BLOCKS
    return [(case, Simulation().backward(case)) for case in cases]


@pytest.mark.parametrize("name", LATE)
def test_every_other_case_of_smoke_gets_the_simulations_bits(name, answered):
    for case, right in answered:
        found = LATE[name].kernel.backward(case)
        for output, array in right.items():
            same = getattr(found, output).tobytes() == np.asarray(array).tobytes()
            assert same, (case.id, output)


@pytest.mark.parametrize("name", LATE)
def test_the_largest_of_them_accept_it(name):
    assert dmverify.verify(LATE[name].kernel, cases=LARGEST).ok


@pytest.mark.parametrize("name", LATE)
def test_its_case_tells_it_from_the_simulation_and_full_has_the_case(name):
    late = LATE[name]
    assert late.case in select_ids("full", seed=0)
    case = generate(late.case, contract="article")
    band = enclosure(get_contract("article"), case.problem, case.inputs)[late.check]
    margins = [
        compare(getattr(kernel.backward(case), late.check), band).margin.max()
        for kernel in (Simulation(), late.kernel)
    ]
    assert margins[0] <= 1 < margins[1]


@pytest.mark.parametrize("name", ["stale-stage", "third-batch"])
def test_smoke_rejects_it_by_a_new_case(name):
    late = LATE[name]
    assert late.case in NEW
    report = dmverify.verify(late.kernel, cases=[late.case])
    assert report.worst(late.check).verdict is Verdict.DOES_NOT
