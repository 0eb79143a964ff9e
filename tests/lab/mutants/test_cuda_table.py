"""The CUDA kernel's mutants: every edit fits, compiles and changes the machine code."""

import random
from pathlib import Path

import pytest

from dmverify.conformance.families import generate
from dmverify.conformance.kernels.certify import all_variants, machine_code
from dmverify.kernel.build import HERE, Edit, build, edited
from dmverify.kernel.errors import BuildError
from dmverify.kernel.launch import Options
from dmverify.kernel.sass import Instruction, disassemble, disassembler
from dmverify.lab.mutants import MUTANTS
from dmverify.lab.mutants.cuda import MUTATIONS
from dmverify.lab.mutants.cuda.builds import builds
from dmverify.lab.mutants.cuda.ordering import lacks_order, unbarriered, unfenced
from dmverify.lab.mutants.cuda.parts.synchronisation import PAUSE
from tests.kernel.nvrtc import compiles

NOT_NUMERIC = {"memory", "synchronisation"}
EDITED = [name for name, mutation in MUTATIONS.items() if mutation.edits]
DELAYED = [name for name, mutation in MUTATIONS.items() if mutation.late]
VARIANTS = all_variants()[::10]
SAMPLE = random.Random(7).sample(EDITED, 12)


def test_there_are_enough_of_every_part():
    parts = [MUTANTS[name].part for name in EDITED]
    assert sum(part not in NOT_NUMERIC for part in parts) >= 60
    assert {MUTANTS[name].part for name in MUTATIONS} == {*parts, "null kernel", "host"}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_one_way_of_being_wrong(name):
    mutation, mutant = MUTATIONS[name], MUTANTS[name]
    assert mutant.check != "run" or mutation.alone
    assert not mutation.racy or (mutation.alone and len(mutant.cases) == 1)
    ways = bool(mutation.edits) + bool(mutation.mode) + bool(mutation.host) + mutation.nearest
    assert ways == 1
    if mutation.before:
        assert generate(mutation.before, contract=mutant.contract).id == mutation.before


@pytest.mark.parametrize("name", EDITED)
def test_every_edit_occurs_once_and_changes_the_source(name):
    for file, text in edited((*MUTATIONS[name].late, *MUTATIONS[name].edits)).items():
        assert text != Path(HERE, file).read_text()


@pytest.mark.parametrize("name", DELAYED)
def test_a_delay_goes_into_the_correct_kernel_too(name):
    mutation = MUTATIONS[name]
    assert mutation.racy
    late = edited(mutation.late)
    assert all(text.count(PAUSE) == 1 for text in late.values())
    assert late != edited((*mutation.late, *mutation.edits))
    right = Options(mode="matched", causal=True, zero_sum=False, scale=1.0)
    assert mutation.delayed(right).edits == mutation.late
    assert mutation.options(right).edits == (*mutation.late, *mutation.edits)


def test_an_edit_that_fits_nowhere_is_refused():
    with pytest.raises(BuildError, match="0 times"):
        edited((Edit("query.cu", "no such text", ""),))


@compiles
@pytest.mark.parametrize("name", SAMPLE)
def test_it_compiles_to_other_machine_code(name):
    pairs = builds(MUTANTS[name])
    assert any(machine_code(good.cubin) != machine_code(bad.cubin) for good, bad in pairs)


@compiles
@pytest.mark.skipif(disassembler() is None, reason="no disassembler")
def test_a_missing_fence_is_found_in_the_machine_code_and_only_that():
    assert lacks_order(MUTANTS["proxy-fence-missing"])
    assert lacks_order(MUTANTS["proxy-fence-missing-quantise"])
    assert not lacks_order(MUTANTS["record-barrier-missing"])


@compiles
@pytest.mark.skipif(disassembler() is None, reason="no disassembler")
def test_a_missing_barrier_between_a_write_and_others_reads_is_found():
    assert lacks_order(MUTANTS["delta-barrier-missing"])


def test_a_fence_counts_between_the_writes_and_the_store():
    def code(*names):
        return [Instruction(16 * i, name, "", False) for i, name in enumerate(names)]

    assert unfenced(code("STS", "FENCE.VIEW.ASYNC.S", "UBLKCP.G.S")) == []
    assert unfenced(code("FENCE.VIEW.ASYNC.S", "STSM.16", "UBLKCP.G.S")) == [32]
    assert unfenced(code("STS", "UBLKCP.S.G")) == []


@compiles
@pytest.mark.skipif(disassembler() is None, reason="no disassembler")
def test_correct_builds_lack_no_order():
    codes = [disassemble(build(variant).cubin) for variant in VARIANTS]
    assert [(unfenced(code), unbarriered(code)) for code in codes] == [([], [])] * len(VARIANTS)


def test_a_barrier_counts_between_what_threads_write_and_all_read():
    def code(*rows):
        return [Instruction(16 * i, *row, False) for i, row in enumerate(rows)]

    write, barrier = ("STS", "[R17+UR6+0x2e0], R20"), ("BAR.SYNC.DEFER_BLOCKING", "R1, 0x80")
    read = ("LDS.128", "R24, [UR6+0x2e0]")
    assert unbarriered(code(write, read)) == [16]
    assert unbarriered(code(write, barrier, read)) == []
    assert unbarriered(code(barrier, write, ("LDS", "R1, [UR6+0x2f0]"), read)) == [48]
    assert unbarriered(code(write, ("LDS", "R1, [R17+UR6+0x2e0]"))) == []  # its own
    assert unbarriered(code(("STS", "[UR6+0x2e0], R20"), read)) == []  # one place for all
