"""The table of seeded faults of the CUDA kernel."""

from __future__ import annotations

from dmverify.errors import unknown_name
from dmverify.lab.mutants.cuda.fault import CudaFault
from dmverify.lab.mutants.cuda.parts import (
    addresses,
    backward,
    forward,
    hosts,
    operands,
    outputs,
    synchronisation,
)

CUDA_FAULTS: tuple[CudaFault, ...] = (
    *forward.ROWS,
    *operands.ROWS,
    *outputs.ROWS,
    *backward.ROWS,
    *addresses.ROWS,
    *synchronisation.ROWS,
    *hosts.ROWS,
)
"""Every seeded fault of the CUDA kernel."""


def get_cuda_fault(name: str) -> CudaFault:
    """The fault of this id.

    Raises:
        UnknownNameError: If there is none.
    """
    known = {fault.id: fault for fault in CUDA_FAULTS}
    if name not in known:
        raise unknown_name("fault of the CUDA kernel", name, known)
    return known[name]
