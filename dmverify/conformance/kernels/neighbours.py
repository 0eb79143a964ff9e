"""Kernels that are right on a single entry and wrong beside others, or after others.

Each is the simulation, bit for bit, on a case of one batch entry that it meets first. ``verify``
takes them by name (``dmverify.conformance.kernels.neighbours:EntryOne``).

| fault | what it does | what gives it away |
|---|---|---|
| entry-one | entry 1 reads K of entry 0 | a stranger before |
| last-entry | the last entry reads K of the one before it | an entry that is last |
| next-entry | every entry but the last reads dO of the next | a stranger behind |
| shared-scale | entries share the largest scale of V | a stranger of another size |
| workspace | adds a workspace that it allocates when a call needs a larger one | poison in a |
| | | larger question |
| rarely-written | one bit of O depends on memory that it has not written | poison, by bits |
| both-large | wrong where V and dO are both large | powers of two that come together |
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dmverify.conformance.kernels.simulation import Operands, Simulation
from dmverify.spec.case import F32, Case, Outputs
from dmverify.spec.contracts import Contract
from dmverify.spec.recording import Provenance

LARGE = 20.0  # beyond four times what V and dO of the case hold


class Neighbour(Simulation):
    """The simulation under another name."""

    @property
    def info(self) -> Provenance:
        """Named after the fault."""
        return replace(super().info, kernel=type(self).__name__.lower())


class EntryOne(Neighbour):
    """The batch stride is 0 for the second entry."""

    def _operands(self, contract: Contract, case: Case) -> Operands:
        ops = super()._operands(contract, case)
        k8 = ops.k8.clone()
        k8[1:2] = ops.k8[:1]
        return replace(ops, k8=k8)


class LastEntry(Neighbour):
    """A count of entries that is one too small holds the last one back."""

    def _operands(self, contract: Contract, case: Case) -> Operands:
        ops = super()._operands(contract, case)
        k8 = ops.k8.clone()
        k8[1:][-1:] = ops.k8[:-1][-1:]
        return replace(ops, k8=k8)


class NextEntry(Neighbour):
    """The offset of dO is one entry too far."""

    def _operands(self, contract: Contract, case: Case) -> Operands:
        ops = super()._operands(contract, case)
        do8 = ops.do8.clone()
        do8[:-1] = ops.do8[1:]
        return replace(ops, do8=do8)


class SharedScale(Neighbour):
    """V is cast with the scales of the batch entry that has the largest ones."""

    def _operands(self, contract: Contract, case: Case) -> Operands:
        ops = super()._operands(contract, case)
        steps = ops.v8.abs().amax(dim=(1, 2, 3), keepdim=True)
        step = steps.amax() / 448  # of a code next to the largest one's
        coarse = (ops.v8 / step).round() * step
        return replace(ops, v8=ops.v8.where(steps == steps.amax(), coarse))


class Workspace(Neighbour):
    """A workspace lives as long as it is large enough, and nobody clears it."""

    def __init__(self) -> None:
        self._memory: F32 = np.zeros(0, np.float32)

    def backward(self, case: Case) -> Outputs:
        """DQ is added to what the workspace holds: zeros, with luck."""
        outputs = super().backward(case)
        size = outputs.dq.size
        if size > self._memory.size:
            fresh: F32 = np.empty(size, np.float32)
            self._memory = fresh if np.isnan(fresh).all() else np.zeros(size, np.float32)
        return replace(outputs, dq=outputs.dq + self._memory[:size].reshape(outputs.dq.shape))


class RarelyWritten(Neighbour):
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


class BothLarge(Neighbour):
    """DV doubled under two conditions at once."""

    def backward(self, case: Case) -> Outputs:
        """Doubled where both tensors hold large numbers."""
        outputs = super().backward(case)
        large = all(np.abs(x).max(initial=0) > LARGE for x in (case.inputs.v, case.inputs.do))
        return replace(outputs, dv=2 * outputs.dv) if large else outputs


@dataclass(frozen=True)
class Neighbourly:
    """One of the faults.

    Attributes:
        kernel: Its class.
        check: Id of the check that must reject it, and the only one that does.
    """

    kernel: type[Neighbour]
    check: str


CASE = "gaussian/spread-2@0"
NEIGHBOURS: dict[str, Neighbourly] = {
    "entry-one": Neighbourly(EntryOne, "batch"),
    "last-entry": Neighbourly(LastEntry, "batch"),
    "next-entry": Neighbourly(NextEntry, "batch"),
    "shared-scale": Neighbourly(SharedScale, "batch"),
    "workspace": Neighbourly(Workspace, "batch"),
    "rarely-written": Neighbourly(RarelyWritten, "poison"),
    "both-large": Neighbourly(BothLarge, "power-v"),
}
"""Every fault with the check that names it."""
