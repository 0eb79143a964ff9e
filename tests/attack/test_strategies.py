"""Drawn cases are cases of the families, and a wrong kernel is found and made small."""

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings

from dmverify.conformance.families import FAMILIES, problem_of
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.errors import UnknownNameError
from dmverify.strategies import LARGEST, case_ids, cases, target_error


@settings(max_examples=60, phases=[Phase.generate])
@given(case_ids())
def test_an_id_is_a_case_of_a_family(case_id):
    problem = problem_of(case_id)
    assert case_id.partition("/")[0] in FAMILIES
    assert 1 <= min(problem.queries, problem.keys) <= max(problem.queries, problem.keys) <= LARGEST
    assert problem.heads % problem.kv_heads == 0


@settings(max_examples=15, phases=[Phase.generate, Phase.target])
@given(cases(families=["gaussian"], head_dims=[32], largest=16))
def test_a_kernel_s_error_is_told(case):
    assert 0 <= target_error(Simulation(), case) < 5


class Forgets(Simulation):
    """dQ of the last query is 0 where there are more than 20 keys."""

    def backward(self, case):
        outputs = super().backward(case)
        if case.problem.keys > 20:
            outputs.dq[:, -1] = 0
        return outputs


def test_what_fails_is_shrunk():
    small = find(
        cases(families=["gaussian"], head_dims=[32], largest=40),
        lambda case: (
            not Forgets().backward(case).dq[:, -1].any()
            and Simulation().backward(case).dq[:, -1].any()
        ),
        settings=settings(max_examples=60, database=None),
    )
    assert small.problem.keys == 21
    assert small.problem.queries == small.problem.batch == small.problem.heads == 1
    assert np.isfinite(small.inputs.q).all()


def test_wrong_names_are_refused():
    with pytest.raises(UnknownNameError):
        case_ids(families=["gausian"])
    with pytest.raises(UnknownNameError):
        target_error(Simulation(), None, "lse")
