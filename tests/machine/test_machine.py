"""Bits of a contract are those of a machine; Hopper is one, and another one gives others."""

import ast
import inspect

import numpy as np
import pytest

import dmverify.spec.hopper as names
from dmverify.spec.arithmetic import Bits, bits
from dmverify.spec.attention import interpret
from dmverify.spec.attention.parts import bits_in_parts
from dmverify.spec.constants import constant
from dmverify.spec.contracts import BUNDLED
from dmverify.spec.machine import HOPPER, MACHINES, Accumulator, Machine
from dmverify.spec.machine.hopper import ex2, wgmma
from dmverify.spec.machine.hopper.model import Hopper
from dmverify.spec.problem import Problem
from tests.attention.oracle import gaussian

# What the steps of the bundled contract ask for; they name no maximum of two and no fast rcp.
OPERATIONS = ("add", "mul", "fma", "div", "sqrt", "ex2", "lg2", "cast", "dot")


def problem_and_inputs():
    problem = Problem(1, 2, 1, 66, 130, 32)
    return problem, gaussian(problem, seed=3, spread=2.0)


class Counting(Hopper):
    """Hopper, which notes what is asked of it."""

    def __init__(self):
        self.asked = set()

    def __getattribute__(self, name):
        if name in OPERATIONS:
            object.__getattribute__(self, "asked").add(name)
        return object.__getattribute__(self, name)


class Exact(Hopper):
    """A generation whose tensor core rounds a sum once, in float32."""

    name = "exact"
    accumulator = Accumulator(products=32, fraction_bits=60)

    def dot(self, a, b):
        return (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float32)


def run(machine):
    problem, inputs = problem_and_inputs()
    return interpret(BUNDLED, problem, inputs, Bits(machine=machine)).outputs


def test_bits_asks_the_machine_for_every_operation():
    machine = Counting()
    found = run(machine)
    assert machine.asked == set(OPERATIONS)
    problem, inputs = problem_and_inputs()
    for name, array in bits_in_parts(BUNDLED, problem, inputs).items():
        np.testing.assert_array_equal(getattr(found, name), array)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_another_instruction_gives_other_bits(operation):
    """No operation of the machine is passed by: what it returns is in some output."""
    plain = run(HOPPER)

    def wrong(self, x, *rest, **options):
        found = getattr(Hopper, operation)(self, x, *rest, **options)
        return found * np.float32(1.25)

    other = run(type("Other", (Hopper,), {operation: wrong})())
    assert any(
        not np.array_equal(getattr(other, name), array, equal_nan=True)
        for name, array in plain.items()
    )


def test_another_accumulator_gives_other_bits():
    plain, other = run(HOPPER), run(Exact())
    assert not np.array_equal(plain.o, other.o)
    np.testing.assert_allclose(plain.o, other.o, atol=0.05)


def test_bits_names_no_generation_but_by_its_default():
    found = {
        node.module
        for node in ast.walk(ast.parse(inspect.getsource(bits)))
        if isinstance(node, ast.ImportFrom)
    }
    assert not any("hopper" in module for module in found)


def test_the_machines_have_names_and_all_members():
    assert MACHINES["hopper"] is HOPPER
    members = {name for name in vars(Machine) if not name.startswith("_")}
    for name, machine in MACHINES.items():
        assert machine.name == name
        assert all(hasattr(machine, member) for member in members)


def test_the_accumulator_is_what_the_bounds_rest_on():
    assert HOPPER.accumulator.products == constant("K32")
    assert 2.0**-HOPPER.accumulator.fraction_bits == float(constant("ACC_TRUNCATION"))


def test_the_names_that_users_import():
    assert names.wgmma is wgmma
    assert names.ex2 is ex2
    assert {"wgmma", "ex2", "lg2", "rcp"} <= set(names.__all__)
