"""Hopper instructions in bits: what the hardware must output for given operands."""

from dmverify.spec.machine.hopper.arith import add, div, fma, maximum, mul, rcp_rn, sqrt
from dmverify.spec.machine.hopper.cvt import cvt
from dmverify.spec.machine.hopper.mufu import ex2, lg2, rcp
from dmverify.spec.machine.hopper.wgmma_call import wgmma, wgmma_values

__all__ = [
    "add",
    "cvt",
    "div",
    "ex2",
    "fma",
    "lg2",
    "maximum",
    "mul",
    "rcp",
    "rcp_rn",
    "sqrt",
    "wgmma",
    "wgmma_values",
]
