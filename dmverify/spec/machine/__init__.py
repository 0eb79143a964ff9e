"""Machines: what the instructions of a GPU generation return, bit for bit."""

from dmverify.spec.machine.hopper.model import HOPPER
from dmverify.spec.machine.protocol import Accumulator, Machine

MACHINES: dict[str, Machine] = {machine.name: machine for machine in (HOPPER,)}
"""Every machine by name."""

__all__ = ["HOPPER", "MACHINES", "Accumulator", "Machine"]
