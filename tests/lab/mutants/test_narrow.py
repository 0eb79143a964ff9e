"""Narrow mutants: the levels reach the condition of each, and its harm is seen there."""

import pytest

from dmverify.conformance.adapter import Supported
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.lab.mutants.narrow import NARROW, Narrow, Narrowed
from dmverify.lab.mutants.narrow.conditions import CONTENT, SHAPE, has_level
from dmverify.lab.mutants.narrow.harms import HARMS
from dmverify.lab.mutants.narrow.hunt import hunt

CASE = "gaussian/spread-2,batch=2,heads=4,kv_heads=2,queries=70,keys=80,head_dim=32@0"


def test_there_are_enough():
    assert len(NARROW) >= 139
    assert {mutant.harm for mutant in NARROW.values()} <= HARMS.keys()
    factors = {factor for mutant in NARROW.values() for factor in mutant.levels}
    assert factors <= SHAPE.keys() | CONTENT.keys()
    assert all(mutant.levels for mutant in NARROW.values())


def test_smoke_rejects_all_that_a_pair_decides():
    mutants = [m for m in NARROW.values() if m.by_smoke]
    assert len(mutants) >= 106
    assert [row.mutant for row in hunt("smoke", mutants) if not row.case] == []


def test_full_rejects_the_rest():
    mutants = [m for m in NARROW.values() if not m.by_smoke]
    assert [row.mutant for row in hunt("full", mutants) if not row.case] == []


@pytest.mark.parametrize(
    ("level", "inside", "outside"),
    [
        (5, 5, 4), (">132", 133, 132), (">=9", 9, 8), ("<=8", 8, 9), ([">0", "<=8"], 1, 0),
        (False, False, True), ("own", "own", "usual"),
    ],
)  # fmt: skip
def test_a_level_is_a_value_or_a_range(level, inside, outside):
    assert has_level(inside, level)
    assert not has_level(outside, level)


def test_a_condition_that_no_case_meets_survives():
    nowhere = Narrow("nowhere", "pair", "doubled", {"batch": 1_000_003})
    (row,) = hunt("smoke", [nowhere])
    assert (row.met, row.case) == (0, "")


@pytest.mark.parametrize("harm", HARMS)
def test_every_harm_changes_a_plain_answer_only_where_the_condition_holds(harm):
    case = generate(CASE, contract="article")
    right = Simulation().backward(case)
    never = Narrow("never", "pair", harm, {"batch": "<0"})
    always = Narrow("always", "pair", harm, {"batch": ">=0"})
    kernels = [Narrowed(Simulation(), mutant) for mutant in (never, always)]
    assert all(isinstance(kernel.supports(case), Supported) for kernel in kernels)
    same, harmed = (kernel.backward(case) for kernel in kernels)
    assert all((getattr(same, n) == x).all() for n, x in right.items())
    if harm != "swallowed":  # it needs a NaN
        assert any((getattr(harmed, n) != x).any() for n, x in right.items())
