"""The table of seeded faults.

To add one, write what is planted and add a row to the module of its part of the kernel.
"""

from __future__ import annotations

from dmverify.errors import unknown_name
from dmverify.lab.mutants.fault import Fault
from dmverify.lab.mutants.parts import (
    accumulation,
    addresses,
    delta,
    gradients,
    lse,
    masks,
    maxima,
    normaliser,
    null,
    operands,
    scales,
    ties,
    values,
    weights,
)

FAULTS: tuple[Fault, ...] = (
    *accumulation.ROWS,
    *weights.ROWS,
    *normaliser.ROWS,
    *masks.ROWS,
    *scales.ROWS,
    *operands.ROWS,
    *maxima.ROWS,
    *lse.ROWS,
    *delta.ROWS,
    *gradients.ROWS,
    *ties.ROWS,
    *addresses.ROWS,
    *values.ROWS,
    *null.ROWS,
)
"""Every seeded fault."""


def get_fault(name: str) -> Fault:
    """The fault of this id.

    Raises:
        UnknownNameError: If there is none.
    """
    known = {fault.id: fault for fault in FAULTS}
    if name not in known:
        raise unknown_name("fault", name, known, shown_by="dmverify faults")
    return known[name]
