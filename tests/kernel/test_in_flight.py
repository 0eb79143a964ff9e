"""Registers of a matrix multiply under way: who may touch them, in text and machine code."""

from dataclasses import replace

import pytest

from dmverify.kernel import sass
from dmverify.kernel.build import BuildVariant, build
from dmverify.kernel.in_flight import touched

CODE = """
        /*0010*/                   LDSM.16.M88.4 R8, [R4] ;
        /*0020*/                   QGMMA.64x64x32.F32.E4M3.E4M3 R24, R8, gdesc[UR4], RZ, !UPT ;
        /*0030*/                   QGMMA.64x64x32.F32.E4M3.E4M3 R24, R12, gdesc[UR6], R24, gsb0 ;
        /*0040*/                   QGMMA.64x72x32.F32.E4M3.E4M3 R64, gdesc[UR8], RZ, !UPT, gsb0 ;
        /*0050*/                   MOV R7, R8 ;
        /*0060*/                   WARPGROUP.DEPBAR.LE gsb0, 0x1 ;
        /*0070*/                   FADD R60, R24, R55 ;
        /*0080*/                   MOV R8, R9 ;
        /*0090*/              @!P0 BRA 0x20 ;
        /*00a0*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*00b0*/                   STG.E.128 desc[UR4][R2.64], R96 ;
        /*00c0*/                   EXIT ;
"""
FREE = "MOV R7, R8"  # a read of fragments, which changes nothing
AFTER_ONE = "FADD R60, R24, R55"  # accumulators of the first group, after its wait
WAIT = "WARPGROUP.DEPBAR.LE gsb0, 0x1"


def found(old="", new=""):
    return touched(sass.parse(CODE.replace(old, new) if old else CODE))


def test_code_that_waits_touches_nothing():
    assert found() == []


@pytest.mark.parametrize(
    ("old", "new", "register"),
    [
        (FREE, "MOV R8, R7", 8),  # fragments of the first group are overwritten
        (FREE, "MOV R15, R7", 15),
        (FREE, "FADD R7, R24, R7", 24),  # accumulators of the first group are read
        (FREE, "FADD R55, R7, R7", 55),
        (FREE, "STS.128 [R4], R20", None),  # R20 to R23 are nobody's
        (FREE, "STS.128 [R4], R22", 24),
        (FREE, "LDS.128 R92, [R4]", 92),
        (FREE, "@P1 MOV R99, R7", 99),
        (FREE, "FADD R7, R100, R7", None),  # 72 columns are 36 registers
        (FREE, "LDG.E R7, desc[UR4][R63.64]", 64),  # an address of two registers
        (AFTER_ONE, "FADD R60, R64, R55", 64),  # the second group is still under way
        (WAIT, "NOP", 24),
        (WAIT, "WARPGROUP.DEPBAR.LE gsb0, 0x2", 24),
        (", R24, gsb0", ", R24", 24),  # closed by nobody: the wait covers the second alone
        ("@!P0 BRA 0x20", "@!P0 BRA 0x70", None),  # a shorter loop, behind the wait
        ("gdesc[UR8], RZ", "R24, gdesc[UR8], RZ", 24),  # fragments that are sums under way
        ("/*00a0*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0", "/*00a0*/ NOP", 96),
    ],
)
def test_each_touch_is_found(old, new, register):
    got = {r for _, r in found(old, new)}
    assert got == set() if register is None else register in got


def test_a_touch_behind_a_jump_is_found():
    """Along the jump alone: in the order of addresses the wait comes first."""
    jumps = CODE.replace(FREE, "@P2 BRA 0x70")
    assert {r for a, r in touched(sass.parse(jumps)) if a == 0x70} >= {24, 55}


def test_loops_without_a_wait_end():
    assert found("WARPGROUP.DEPBAR.LE gsb0, 0x1", "NOP")


pytest.importorskip("cuda.bindings", reason="the extra 'gpu' compiles the kernels")


@pytest.mark.skipif(sass.disassembler() is None, reason="needs cuobjdump")
@pytest.mark.parametrize(
    "variant",
    [BuildVariant("forward", 128), BuildVariant("query", 256), BuildVariant("key", 64)],
    ids=lambda v: v.kernel,
)
def test_every_wait_of_real_code_is_needed(variant):
    code = sass.disassemble(build(variant).cubin)
    assert touched(code) == []
    waits = [i for i in code if i.operation.startswith("WARPGROUP.DEPBAR")]
    assert waits
    for wait in waits:
        without = [replace(i, operation="NOP", operands="") if i is wait else i for i in code]
        assert touched(without)
