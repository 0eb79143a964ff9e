"""The float interpretation of whole stacks says what the kernel says, however they are stacked."""

from dataclasses import fields, replace

import pytest
import torch
from torch.overrides import TorchFunctionMode

from dmverify.attack.engines import Best
from dmverify.attack.evaluate import WORST, Evaluator
from dmverify.attack.objective import read_objective
from dmverify.attack.run import Settings, attempt_of
from dmverify.attack.stack import Stack
from dmverify.attack.wide import WIDER, Wide, require_device, searched
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.errors import InputError
from dmverify.studies.adversarial.kernel import EveryMode
from tests.attack.conftest import SMALL, drawn


def wide_of(evaluator):
    return Wide(**{one.name: getattr(evaluator, one.name) for one in fields(Evaluator)})


class Doubled(Simulation):
    """Another kernel than the float interpretation: its dQ is twice as large."""

    def backward(self, case):
        outputs = super().backward(case)
        outputs.dq[:] *= 2
        return outputs


@pytest.mark.parametrize("against", ["inputs", "operands"])
@pytest.mark.parametrize("objective", ["o", "dq", "dk", "dv"])
def test_values_are_the_kernel_s_alone_and_in_stacks(objective, against, evaluator):
    asked, stack = evaluator(objective, against), drawn(SMALL, 6, spread=0.8)
    wide = wide_of(asked)
    values = wide.values(stack)
    torch.testing.assert_close(values, asked.values(stack), rtol=1e-5, atol=0)
    alone = torch.cat([wide.values(stack[i : i + 1]) for i in range(6)])
    assert torch.equal(values, alone)
    assert wide.count == 12


def test_what_the_limits_forbid_has_the_worst_value(evaluator):
    stack = drawn(SMALL, 2, spread=0.8)
    q = stack.q.clone()
    q[1] = 9
    values = wide_of(evaluator()).values(Stack(q, stack.k, stack.v, stack.do))
    assert values[0] > 0
    assert values[1] == WORST


def test_stacks_are_wider_and_memory_limits_them(evaluator):
    assert wide_of(evaluator()).room(32) == 32 * WIDER
    long = evaluator(problem=SMALL.__class__(1, 1, 1, 4096, 4096, 32, causal=False))
    assert wide_of(long).room(32) == 4


def test_the_kernel_judges_what_the_device_found(evaluator):
    asked = evaluator(kernel=Doubled())
    found = searched(wide_of(asked), asked, seed=0, evaluations=6144, start=drawn(SMALL))
    again = Best()
    again.add(found.stack, asked.values(found.stack))
    assert torch.equal(found.values, again.values)
    assert found.value > 0.9  # twice dQ, not the interpretation's few per cent
    assert found.value > float(wide_of(asked).values(found.stack).max())


def test_an_attempt_goes_on_from_the_device_s_finds():
    settings = Settings(
        "simulation",
        "article",
        SMALL,
        read_objective("dq", "inputs"),
        evaluations=300,
        device_evaluations=6144,
    )
    attempt = attempt_of(settings, 0)
    assert attempt.gains["device"] > 0
    assert attempt.best.value >= attempt.gains["device"]
    assert attempt.evaluations > 6144


def test_a_device_that_is_not_there_is_refused():
    require_device("cpu")
    with pytest.raises(InputError, match="abacus"):
        require_device("abacus")


class Divisions(TorchFunctionMode):
    """Keeps the Python numbers by which tensors are divided: on a GPU torch takes their inverse."""

    def __init__(self):
        super().__init__()
        self.by = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if "div" in func.__name__ and len(args) > 1 and not isinstance(args[1], torch.Tensor):
            self.by.append(args[1])
        return func(*args, **(kwargs or {}))


def test_the_simulation_divides_by_tensors_alone(evaluator):
    """A scale of amax times the rounded 1 / 448 is another scale, and other operands."""
    asked = evaluator()
    case = drawn(SMALL, 2).case(SMALL, asked.contract)
    with Divisions() as met:
        asked.kernel.backward(case)
        EveryMode().backward(replace(case, contract="article:ds_cast=zero-sum"))
    assert met.by == []
    with Divisions() as met:
        torch.ones(1) / 448.0
    assert met.by == [448.0]
