"""What a case needs is said before it is made."""

import math
import resource

import pytest

from dmverify.conformance import sizes
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.sizes import estimate, limit, require_room
from dmverify.errors import InputError
from dmverify.spec.problem import Problem

CASES = (
    "lengths/q17-k129@0",
    "gaussian/spread-2,heads=6,kv_heads=2@0",
    "lengths/n15,queries=0@0",
    "capture/minilm/layer1@0",
)


@pytest.mark.parametrize("case_id", CASES)
def test_inputs_and_outputs_have_the_estimated_bytes(case_id):
    case = generate(case_id, contract="article")
    found = estimate(case.problem)
    assert found.inputs == sum(array.nbytes for _, array in case.inputs.items())
    outputs = dict(Simulation().backward(case).items())
    rows = outputs["lse"].nbytes  # delta may be there or not
    assert found.outputs - sum(x.nbytes for n, x in outputs.items() if n != "delta") == rows


def test_sizes_that_no_machine_has_are_numbers_still():
    huge = Problem(1, 1, 1, 10**150, 2, 64)
    assert estimate(huge).asking > 10**150
    with pytest.raises(InputError, match=r"more than 1e21 GB; rule: a case fits the memory"):
        require_room(huge, "a/b@0")


def test_the_limit_is_the_least_of_all(monkeypatch, tmp_path):
    assert 0 < limit() < math.inf
    container = tmp_path / "memory.max"
    monkeypatch.setattr(sizes, "CGROUP", container)
    container.write_text("1000000\n")
    assert limit() == 1_000_000
    container.write_text("max\n")
    free = limit()
    taken = sizes._taken()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (taken + 5000, -1))
    monkeypatch.setattr(sizes, "_taken", lambda: taken)
    assert limit() == 5000 < free


def test_a_case_that_fits_is_let_through(monkeypatch):
    problem = Problem(1, 1, 1, 16, 16, 64)
    needed = estimate(problem).asking
    monkeypatch.setattr(sizes, "limit", lambda: needed)
    require_room(problem, "a/b@0")
    monkeypatch.setattr(sizes, "limit", lambda: needed - 1)
    with pytest.raises(InputError, match=r"a/b@0, which needs about"):
        require_room(problem, "a/b@0")
