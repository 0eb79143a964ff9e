"""Hopper instructions in bits: what the hardware must output for given operands."""

from dmverify.spec.hopper.wgmma_call import wgmma, wgmma_values

__all__ = ["wgmma", "wgmma_values"]
