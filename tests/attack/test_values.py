"""What is maximised: the references are those of the specification, the floor does what it says."""

import numpy as np
import pytest
import torch

from dmverify.attack.evaluate import WORST, operands
from dmverify.attack.objective import distance, read_objective
from dmverify.attack.reference import exact, largest_logit
from dmverify.attack.stack import Stack, joined
from dmverify.errors import InputError, UnknownNameError
from dmverify.spec.arithmetic import Double
from dmverify.spec.attention import interpret
from dmverify.spec.contracts import get_contract
from dmverify.spec.problem import Problem
from tests.attack.conftest import SMALL, drawn

PROBLEMS = [
    SMALL,
    Problem(1, 6, 2, 9, 17, 32, causal=True),
    Problem(1, 2, 1, 12, 5, 64, causal=True, softmax_scale=-0.3),  # with dead rows
]


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("against", ["inputs", "operands"])
def test_the_reference_is_the_specification_s(problem, against, evaluator):
    asked = evaluator(against=against, problem=problem)
    stack = drawn(problem, 3)
    found = exact(problem, asked.seen_by_kernel(stack)).outputs
    case = stack.case(problem, "article")
    casts = frozenset({"operands"} if against == "operands" else ())
    due = interpret(get_contract("article"), case.problem, case.inputs, Double(casts)).values
    for name, x in found.items():
        np.testing.assert_allclose(x.numpy(), due[name], rtol=1e-10, atol=1e-12)


def test_o_and_dv_do_not_exceed_their_sizes():
    stack = drawn(PROBLEMS[1], 4)
    found = exact(PROBLEMS[1], stack)
    for name in ("o", "dv"):
        assert (found.outputs[name].abs() <= found.sizes[name] * (1 + 1e-12)).all()
    assert all((size > 0).all() for size in found.sizes.values())


def test_a_candidate_s_value_does_not_depend_on_its_neighbours(evaluator):
    asked, stack = evaluator(), drawn(SMALL, 5, spread=0.8)
    together = asked.values(stack)
    alone = torch.cat([asked.values(stack[i : i + 1]) for i in range(5)])
    assert torch.equal(together, alone)
    assert asked.count == 10


def test_what_is_not_allowed_or_not_finite_has_the_worst_value(evaluator):
    stack = drawn(SMALL, 3, spread=0.8)
    q = stack.q.clone()
    q[0, 0, 0, 0] = 5.0
    values = evaluator().values(Stack(q, stack.k, stack.v, stack.do))
    assert values[0] == WORST
    assert (values[1:] > 0).all()


@pytest.mark.parametrize("objective", ["o", "dq", "dk", "dv", "residual", "colsum"])
def test_every_objective_is_a_small_number_on_ordinary_inputs(objective, evaluator):
    values = evaluator(objective).values(drawn(SMALL, 4, spread=0.8))
    assert ((values > 0) & (values < 0.3)).all()


def test_a_gap_to_the_same_kernel_is_nothing_and_to_another_is_something(evaluator):
    asked = evaluator()
    stack = drawn(SMALL, 2, spread=0.8)
    asked.objective = read_objective("gap:simulation", "inputs")
    asked.other = asked.kernel
    assert (asked.values(stack) == 0).all()


def test_the_floor_keeps_a_vanishing_output_from_exploding():
    due, size = torch.zeros(1, 4, dtype=torch.float64), torch.ones(1, 4, dtype=torch.float64)
    got = torch.full((1, 4), 0.01)
    found = distance(got, due, size)
    assert float(found.value) == pytest.approx(0.01 / 0.05)
    assert float(found.plain) == float("inf")
    assert float(found.floor) == 1
    assert float(distance(due, due, size).value) == 0
    plain = distance(2 * size, size, size)
    assert float(plain.value) == float(plain.plain) == 1
    assert float(plain.floor) == pytest.approx(0.05)


def test_operands_are_what_the_codes_say(evaluator):
    found = operands(evaluator(), drawn(SMALL))
    assert len(found.q.unique()) <= 255
    assert (found.q - drawn(SMALL).q).abs().max() < 0.2
    assert largest_logit(SMALL, joined([drawn(SMALL), drawn(SMALL)])).shape == (2,)


@pytest.mark.parametrize(
    ("text", "against", "error"),
    [
        ("dx", "inputs", UnknownNameError),
        ("dq", "output", UnknownNameError),
        ("gap", "inputs", InputError),
        ("dq:simulation", "inputs", InputError),
    ],
)
def test_wrong_objectives_are_refused(text, against, error):
    with pytest.raises(error):
        read_objective(text, against)
