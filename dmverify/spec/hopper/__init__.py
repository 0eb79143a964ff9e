"""Hopper instructions in bits: what the hardware must output for given operands."""

from dmverify.spec.hopper.arith import add, div, fma, maximum, mul, rcp_rn, sqrt
from dmverify.spec.hopper.cvt import cvt
from dmverify.spec.hopper.mufu import ex2, lg2, rcp
from dmverify.spec.hopper.wgmma_call import wgmma, wgmma_values

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
