"""Every mutation of the CUDA kernel."""

from __future__ import annotations

from types import MappingProxyType

from dmverify.lab.mutants.cuda.parts import (
    addresses,
    backward,
    forward,
    hosts,
    operands,
    outputs,
    synchronisation,
)

PARTS = (forward, operands, outputs, backward, addresses, synchronisation, hosts)

MUTATIONS = MappingProxyType(
    {name: change for part in PARTS for name, change in part.MUTATIONS.items()}
)
"""What is changed, by the mutant's id."""
