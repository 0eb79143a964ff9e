"""Hopper instructions in bits: what the hardware must output for given operands."""

from dmverify.spec.hopper.mufu import ex2, lg2, rcp
from dmverify.spec.hopper.wgmma_call import wgmma, wgmma_values

__all__ = ["ex2", "lg2", "rcp", "wgmma", "wgmma_values"]
