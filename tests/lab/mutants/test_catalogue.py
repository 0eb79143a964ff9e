"""The catalogue is complete: every row names what exists, and every edit has its row."""

import json
from dataclasses import fields
from importlib import import_module

import pytest

from dmverify.conformance.checks import CHECKS
from dmverify.conformance.families import generate
from dmverify.errors import UnknownNameError
from dmverify.lab.mutants import CAUSES, MUTANTS, chosen, simulated
from dmverify.lab.mutants.catalogue import CASES, Mutant
from dmverify.lab.mutants.cuda import MUTATIONS as CUDA
from dmverify.lab.mutants.cuda import recorded
from dmverify.lab.mutants.cuda import table as cuda
from dmverify.lab.mutants.emulator import Mutation
from dmverify.lab.mutants.emulator import table as emulator
from dmverify.lab.mutants.emulator.table import MUTATIONS as EMULATOR
from dmverify.spec.contracts import get_contract

OWN_CHECKS = {"run", "fences"}  # of how a CUDA kernel ends, and of its machine code
RECORDED = {row["id"]: row for row in json.loads(recorded.RECORDED.read_text())["faults"]}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda mutant: mutant.id)
def test_a_row_names_what_exists(mutant):
    assert {mutant.check, mutant.check_outside} <= CHECKS.keys() | OWN_CHECKS
    assert mutant.what
    exact = mutant.id in EMULATOR.keys() | CUDA.keys()
    assert get_contract(mutant.contract).bit_exact or not exact
    for case, contract in mutant.keys:
        assert generate(case, contract=contract).id == case


def test_every_row_is_made_and_every_edit_has_a_row():
    assert MUTANTS.keys() == EMULATOR.keys() | CUDA.keys() | simulated.MUTATIONS.keys()
    assert len(EMULATOR) >= 154
    assert len(CUDA) >= 152
    assert len(simulated.MUTATIONS) >= 54
    assert len(EMULATOR.keys() & CUDA.keys()) >= 88
    assert len(EMULATOR.keys() & simulated.MUTATIONS.keys()) >= 17


@pytest.mark.parametrize("table", [emulator, cuda, simulated], ids=["emulator", "cuda", "torch"])
def test_no_two_parts_have_the_same_id(table):
    assert sum(len(part.MUTATIONS) for part in table.PARTS) == len(table.MUTATIONS)


def test_every_mutant_of_the_emulator_has_one_cause_and_every_cause_a_mutant():
    owned = [name for cause in CAUSES for name in cause.mutants]
    assert sorted(owned) == sorted(EMULATOR)
    assert all(cause.mutants for cause in CAUSES)
    assert len({cause.id for cause in CAUSES}) == len({cause.words for cause in CAUSES})


def test_no_case_or_reason_is_left_over():
    used = {case for mutant in MUTANTS.values() for case in mutant.cases}
    used |= {mutation.before for mutation in CUDA.values()}
    assert set(CASES.values()) <= used
    assert len(set(CASES.values())) == len(CASES)


@pytest.mark.parametrize("name", EMULATOR)
def test_what_the_emulator_changes_exists(name):
    change = EMULATOR[name]
    if isinstance(change, Mutation):
        for path in change.steps:
            module, *names = path.split(".")
            found = import_module(f"dmverify.spec.attention.{module}")
            for part in names:
                found = getattr(found, part)
        assert change.contract.keys() <= {x.name for x in fields(get_contract("bundled"))}


def test_what_only_shows_outside_is_made_outside():
    """A second check is for a kernel that does not show its inside; the emulator shows it."""
    inside = {check.id for check in CHECKS.values() if check.needs == "internals"}
    for mutant in MUTANTS.values():
        both = mutant.id in EMULATOR.keys() & CUDA.keys()
        assert bool(mutant.outside) == (both and mutant.check in inside), mutant.id


def test_the_recording_of_the_cuda_kernel_has_the_catalogues_rows():
    assert RECORDED.keys() == CUDA.keys()
    for name, row in RECORDED.items():
        mutant: Mutant = MUTANTS[name]
        assert row["cases"] == list(mutant.cases[: len(row["cases"])]), name
        assert row["cases"]
        assert mutant.check_outside in row["rejected_by"], name
        assert (not row["killed_without_bits"]) == bool(
            mutant.hidden
        ) or mutant.check == "fences", name


def test_an_unknown_mutant_is_refused_with_a_near_name():
    with pytest.raises(UnknownNameError, match="delta-stale"):
        chosen(["delta-stal"], EMULATOR)
    with pytest.raises(UnknownNameError, match="name that kernel: --kernel"):
        chosen(["default-stream"], EMULATOR)  # the host's, and there is none
    assert [mutant.id for mutant in chosen(["zeros", "doubled", "zeros"], EMULATOR)] == [
        "zeros",
        "doubled",
    ]  # fmt: skip
    assert {mutant.id for mutant in chosen([], CUDA)} == CUDA.keys()
