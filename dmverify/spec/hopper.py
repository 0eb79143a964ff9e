"""Hopper's instructions by the names that users import: ``dmverify.spec.machine.hopper``."""

from dmverify.spec.machine.hopper import cvt, ex2, lg2, rcp, wgmma

__all__ = ["cvt", "ex2", "lg2", "rcp", "wgmma"]
