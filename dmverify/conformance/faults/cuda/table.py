"""The table of seeded faults of the CUDA kernel."""

from __future__ import annotations

from difflib import get_close_matches

from dmverify.conformance.faults.cuda.fault import CudaFault
from dmverify.conformance.faults.cuda.parts import (
    addresses,
    backward,
    forward,
    hosts,
    operands,
    outputs,
    synchronisation,
)
from dmverify.errors import UnknownNameError

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
        near = get_close_matches(name, known, cutoff=0.4) or ("value-scale-dropped",)
        raise UnknownNameError(
            f"fault {name!r}",
            rule="a fault of the kernel 'bundled' is a row of its own table",
            fix=f"did you mean {' or '.join(near)}? without a name, all are tried",
        )
    return known[name]
