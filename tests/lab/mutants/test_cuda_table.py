"""The CUDA kernel's faults: every edit fits, compiles and changes the machine code."""

import random
from pathlib import Path

import pytest

from dmverify.conformance.checks import CHECKS
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.certify import all_variants, machine_code
from dmverify.errors import UnknownNameError
from dmverify.kernel.build import HERE, Edit, build, edited, nvrtc_version
from dmverify.kernel.errors import BuildError
from dmverify.kernel.launch import Options
from dmverify.kernel.sass import Instruction, disassemble, disassembler
from dmverify.lab.mutants import FAULTS
from dmverify.lab.mutants.cuda import CUDA_FAULTS, get_cuda_fault
from dmverify.lab.mutants.cuda.builds import builds
from dmverify.lab.mutants.cuda.ordering import lacks_order, unbarriered, unfenced
from dmverify.lab.mutants.cuda.parts.synchronisation import PAUSE
from dmverify.spec.contracts import get_contract

GROUPS = {
    "accumulation", "P", "normaliser", "row maximum", "mask", "scale", "LSE", "delta",
    "softmax scale", "dS", "transposes", "GQA", "geometry", "memory", "special values",
    "instruction", "synchronisation", "host",
}  # fmt: skip
NUMERIC = GROUPS - {"memory", "synchronisation", "host"}
OWN_CHECKS = {"run", "fences"}
EDITED = [fault for fault in CUDA_FAULTS if fault.edits]
DELAYED = [fault for fault in CUDA_FAULTS if fault.late]
VARIANTS = all_variants()[::10]
SAMPLE = random.Random(7).sample(EDITED, 12)


def has_nvrtc():
    try:
        return bool(nvrtc_version())
    except BuildError:
        return False


compiles = pytest.mark.skipif(not has_nvrtc(), reason="no NVRTC on this machine")


def test_there_are_enough_with_ids_of_their_own():
    ids = [fault.id for fault in CUDA_FAULTS]
    assert len(ids) == len(set(ids))
    assert sum(fault.group in NUMERIC for fault in EDITED) >= 60
    assert {fault.group for fault in CUDA_FAULTS} == GROUPS


def test_faults_of_both_kernels_have_the_same_ids():
    both = {fault.id for fault in CUDA_FAULTS} & {fault.id for fault in FAULTS}
    assert len(both) >= 60


@pytest.mark.parametrize("fault", CUDA_FAULTS, ids=lambda fault: fault.id)
def test_a_row_names_what_exists(fault):
    assert fault.check in CHECKS.keys() | OWN_CHECKS
    assert fault.check != "run" or fault.alone
    assert not fault.racy or (fault.alone and len(fault.cases) == 1)
    assert get_contract(fault.contract).bit_exact
    assert bool(fault.edits) + bool(fault.mode) + bool(fault.host) + fault.nearest == 1
    for case in (*fault.cases, *([fault.before] if fault.before else [])):
        assert generate(case, contract=fault.contract).id == case


@pytest.mark.parametrize("fault", EDITED, ids=lambda fault: fault.id)
def test_every_edit_occurs_once_and_changes_the_source(fault):
    for name, text in edited((*fault.late, *fault.edits)).items():
        assert text != Path(HERE, name).read_text()


@pytest.mark.parametrize("fault", DELAYED, ids=lambda fault: fault.id)
def test_a_delay_goes_into_the_correct_kernel_too(fault):
    assert fault.racy
    late = edited(fault.late)
    assert all(text.count(PAUSE) == 1 for text in late.values())
    assert late != edited((*fault.late, *fault.edits))
    right = Options(mode="matched", causal=True, zero_sum=False, scale=1.0)
    assert fault.delayed(right).edits == fault.late
    assert fault.options(right).edits == (*fault.late, *fault.edits)


def test_an_edit_that_fits_nowhere_is_refused():
    with pytest.raises(BuildError, match="0 times"):
        edited((Edit("query.cu", "no such text", ""),))


@compiles
@pytest.mark.parametrize("fault", SAMPLE, ids=lambda fault: fault.id)
def test_it_compiles_to_other_machine_code(fault):
    assert any(machine_code(good.cubin) != machine_code(bad.cubin) for good, bad in builds(fault))


@compiles
@pytest.mark.skipif(disassembler() is None, reason="no disassembler")
def test_a_missing_fence_is_found_in_the_machine_code_and_only_that():
    assert lacks_order(get_cuda_fault("proxy-fence-missing"))
    assert lacks_order(get_cuda_fault("proxy-fence-missing-quantise"))
    assert not lacks_order(get_cuda_fault("record-barrier-missing"))


@compiles
@pytest.mark.skipif(disassembler() is None, reason="no disassembler")
def test_a_missing_barrier_between_a_write_and_others_reads_is_found():
    assert lacks_order(get_cuda_fault("delta-barrier-missing"))


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


def test_an_unknown_fault_is_refused_with_a_near_name():
    with pytest.raises(UnknownNameError, match="delta-stale"):
        get_cuda_fault("delta-stal")
