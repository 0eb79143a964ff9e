"""The table of faults is complete: every row names what exists."""

from importlib import import_module

import pytest

from dmverify.conformance.checks import CHECKS
from dmverify.conformance.families import generate
from dmverify.errors import UnknownNameError
from dmverify.lab.mutants import FAULTS, Plant, get_fault
from dmverify.spec.contracts import get_contract

GROUPS = {
    "accumulation", "P", "normaliser", "row maximum", "mask", "scale", "LSE", "delta",
    "softmax scale", "dS", "transposes", "GQA", "geometry", "special values", "instruction",
    "null kernel",
}  # fmt: skip


def test_ids_are_unique_and_there_are_enough():
    ids = [fault.id for fault in FAULTS]
    assert len(ids) == len(set(ids)) >= 60


def test_every_group_has_faults():
    assert {fault.group for fault in FAULTS} == GROUPS


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_row_names_what_exists(fault):
    assert fault.check in CHECKS
    assert fault.what
    assert get_contract(fault.contract).bit_exact
    for case in fault.cases:
        assert generate(case, contract=fault.contract).id == case
    if isinstance(fault.plant, Plant):
        for path in (*fault.plant.steps, *fault.plant.constants):
            module, *names = path.split(".")
            found = import_module(f"dmverify.spec.attention.{module}")
            for name in names:
                found = getattr(found, name)


def test_an_unknown_fault_is_refused_with_a_near_name():
    with pytest.raises(UnknownNameError, match="delta-stale"):
        get_fault("delta-stal")
