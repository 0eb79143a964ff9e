"""Kernels that are right until something is used again: only the cases made for it tell."""

import numpy as np
import pytest

import dmverify
from dmverify.conformance.checks.margins import compare
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.selection import select, select_ids
from dmverify.conformance.verdict import Verdict
from dmverify.lab.mutants import MUTANTS
from dmverify.lab.mutants.long_context import BLOCKS, MUTATIONS, ROUND
from dmverify.lab.mutants.simulated import asked
from dmverify.spec.contracts import get_contract
from dmverify.spec.enclosure import enclosure

# The largest cases that no such fault changes, and what looks at one answer alone: relations ask
# again with strangers around the batch, which shows a fault of the third.
LARGEST = ("positive-v/short@0", "lengths/two-batches@0")
ONE_ANSWER = ("o", "lse", "dq", "dk", "dv")


def _spared(case):
    """Whether the case is below every fault's count."""
    problem = case.problem
    few = problem.batch * problem.heads <= BLOCKS and problem.batch <= 2
    return few and problem.keys <= ROUND


@pytest.fixture(scope="module")
def answered():
    """Smoke's cases below the faults' counts, with the simulation's answers."""
    cases = [case for case in select("smoke", "article", seed=0) if _spared(case)]
    assert len(cases) > 100
    return [(case, Simulation().backward(case)) for case in cases]


@pytest.mark.parametrize("name", MUTATIONS)
def test_every_smaller_case_of_smoke_gets_the_simulations_bits(name, answered):
    for case, right in answered:
        found = MUTATIONS[name]().backward(case)
        for output, array in right.items():
            same = getattr(found, output).tobytes() == np.asarray(array).tobytes()
            assert same, (case.id, output)


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_largest_of_them_accept_it(name):
    assert dmverify.verify(MUTATIONS[name](), cases=LARGEST, checks=ONE_ANSWER).ok


@pytest.mark.parametrize("name", MUTATIONS)
def test_its_case_tells_it_from_the_simulation_and_full_has_the_case(name):
    check, (kernel, (case,)) = MUTANTS[name].check, asked(name)
    assert case.id in select_ids("full", seed=0)
    band = enclosure(get_contract("article"), case.problem, case.inputs)[check]
    margins = [
        compare(getattr(one.backward(case), check), band).margin.max()
        for one in (Simulation(), kernel)
    ]
    assert margins[0] <= 1 < margins[1]


@pytest.mark.parametrize("name", MUTATIONS)
def test_smoke_has_a_case_that_rejects_it(name):
    kernel, (case,) = asked(name)
    assert case.id in select_ids("smoke", seed=0)
    report = dmverify.verify(kernel, cases=[case.id])
    assert report.worst(MUTANTS[name].check).verdict is Verdict.FAILS
