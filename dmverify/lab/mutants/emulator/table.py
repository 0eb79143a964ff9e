"""Every mutation of the emulator."""

from __future__ import annotations

from types import MappingProxyType

from dmverify.lab.mutants.emulator import (
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

PARTS = (
    accumulation,
    weights,
    normaliser,
    masks,
    scales,
    operands,
    maxima,
    lse,
    delta,
    gradients,
    ties,
    addresses,
    values,
    null,
)

MUTATIONS = MappingProxyType(
    {name: change for part in PARTS for name, change in part.MUTATIONS.items()}
)
"""What is changed, by the mutant's id; or a kernel, where it is no change of one run."""
