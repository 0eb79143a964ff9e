"""Kernels that are right on a single entry and wrong beside others, or after others.

Each is the simulation, bit for bit, on a case of one batch entry that it meets first: only the
check that names it rejects it there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dmverify.conformance.kernels.simulation import Operands
from dmverify.lab.mutants.wrong import Wrong
from dmverify.spec.case import F32, Case, Outputs
from dmverify.spec.contracts import Contract

LARGE = 20.0  # beyond four times what V and dO of the case hold


class EntryOne(Wrong):
    """The batch stride is 0 for the second entry."""

    def _operands(self, contract: Contract, case: Case) -> Operands:
        ops = super()._operands(contract, case)
        k8 = ops.k8.clone()
        k8[1:2] = ops.k8[:1]
        return replace(ops, k8=k8)


class LastEntry(Wrong):
    """A count of entries that is one too small holds the last one back."""

    def _operands(self, contract: Contract, case: Case) -> Operands:
        ops = super()._operands(contract, case)
        k8 = ops.k8.clone()
        k8[1:][-1:] = ops.k8[:-1][-1:]
        return replace(ops, k8=k8)


class NextEntry(Wrong):
    """The offset of dO is one entry too far."""

    def _operands(self, contract: Contract, case: Case) -> Operands:
        ops = super()._operands(contract, case)
        do8 = ops.do8.clone()
        do8[:-1] = ops.do8[1:]
        return replace(ops, do8=do8)


class SharedScale(Wrong):
    """V is cast with the scales of the batch entry that has the largest ones."""

    def _operands(self, contract: Contract, case: Case) -> Operands:
        ops = super()._operands(contract, case)
        steps = ops.v8.abs().amax(dim=(1, 2, 3), keepdim=True)
        step = steps.amax() / 448  # of a code next to the largest one's
        coarse = (ops.v8 / step).round() * step
        return replace(ops, v8=ops.v8.where(steps == steps.amax(), coarse))


class Workspace(Wrong):
    """A workspace lives as long as it is large enough, and nobody clears it."""

    def __init__(self) -> None:
        super().__init__()
        self._memory: F32 = np.zeros(0, np.float32)

    def backward(self, case: Case) -> Outputs:
        """Adds dQ to what the workspace holds: zeros, with luck."""
        outputs = super().backward(case)
        size = outputs.dq.size
        if size > self._memory.size:
            fresh: F32 = np.empty(size, np.float32)
            self._memory = fresh if np.isnan(fresh).all() else np.zeros(size, np.float32)
        return replace(outputs, dq=outputs.dq + self._memory[:size].reshape(outputs.dq.shape))


class RarelyWritten(Wrong):
    """The last bit of an element is never written, and no bound is as narrow as that."""

    def backward(self, case: Case) -> Outputs:
        """One step of BF16 more where memory was not 0."""
        outputs = super().backward(case)
        if not outputs.o.size:
            return outputs
        memory = np.empty(outputs.o.shape, np.float32)
        o = outputs.o.copy()
        if np.isnan(memory).all():
            o.reshape(-1).view(np.uint32)[:1] ^= np.uint32(1 << 16)
        return replace(outputs, o=o)


class BothLarge(Wrong):
    """Doubles dV under two conditions at once."""

    def backward(self, case: Case) -> Outputs:
        """Doubled where both tensors hold large numbers."""
        outputs = super().backward(case)
        large = all(np.abs(x).max(initial=0) > LARGE for x in (case.inputs.v, case.inputs.do))
        return replace(outputs, dv=2 * outputs.dv) if large else outputs


MUTATIONS: dict[str, Callable[[], Wrong]] = {
    "entry-one": EntryOne,
    "last-entry": LastEntry,
    "next-entry": NextEntry,
    "shared-scale": SharedScale,
    "workspace": Workspace,
    "rarely-written": RarelyWritten,
    "both-large": BothLarge,
}
"""By the mutant's id."""
