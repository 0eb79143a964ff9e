"""Kernels that do nothing right, or that remember what they should not.

Kernels that remember or forget between calls are no change of one run, so they are written out.
"""

from __future__ import annotations

import numpy as np

from dmverify.conformance.adapter import Forward
from dmverify.lab.mutants import cases as on
from dmverify.lab.mutants.fault import Fault, Plant
from dmverify.lab.mutants.planted import Planted
from dmverify.lab.mutants.plants import TENSORS, storing
from dmverify.spec.case import Case, Internals, Outputs


class LastCall(Planted):
    """Answers every call with the outputs of the case before, if their shapes agree."""

    def __init__(self) -> None:
        super().__init__("last-call", Plant())
        self._kept: list[Outputs] = []

    def forward(self, case: Case) -> Forward:
        """The kept O and LSE; what is computed is kept for the next case."""
        self._kept = [*self._kept[-1:], super().backward(case)]
        answer = self.backward(case)
        return Forward(answer.o, answer.lse)

    def backward(self, case: Case) -> Outputs:
        """The kept outputs."""
        old, new = self._kept[0], self._kept[-1]
        return old if old.o.shape == new.o.shape and old.dk.shape == new.dk.shape else new


class Forgetful(Planted):
    """The last bit of one element of O depends on which call it is."""

    def __init__(self) -> None:
        super().__init__("unrepeatable", Plant())

    def forward(self, case: Case) -> Forward:
        """O with one bit changed."""
        answer = super().forward(case)
        o = answer.o.copy()
        o.reshape(-1).view(np.uint32)[:1] ^= np.uint32(0x10000)
        return Forward(o, answer.lse)


class StaleDump(Planted):
    """Shows the inside of the call before, if its shapes agree."""

    def __init__(self) -> None:
        super().__init__("stale-dump", Plant())
        self._kept: list[Internals] = []

    def internals(self, case: Case) -> Internals | None:
        """The kept numbers; those of this call are kept for the next."""
        shown = super().internals(case)
        if shown is None:
            return None
        self._kept = [*self._kept[-1:], shown]
        old, new = self._kept[0], self._kept[-1]
        return old if old.p.shape == new.p.shape else new


ROWS = (
    Fault(
        "zeros",
        "null kernel",
        "O and the gradients are 0",
        "o",
        storing(np.zeros_like, *TENSORS),
        (on.GAUSSIAN,),
    ),
    Fault(
        "negated",
        "null kernel",
        "O and the gradients have the wrong sign",
        "dk",
        storing(np.negative, *TENSORS),
        (on.GAUSSIAN,),
    ),
    Fault(
        "doubled",
        "null kernel",
        "O and the gradients are twice too large",
        "sum-dv",
        storing(lambda x: x * np.float32(2), *TENSORS),
        (on.GAUSSIAN,),
    ),
    Fault(
        "one-sixteenth-more",
        "null kernel",
        "O and the gradients are a sixteenth too large",
        "o",
        storing(lambda x: x * np.float32(1.0625), *TENSORS),
        (on.GAUSSIAN,),
    ),
    Fault(
        "rotated-heads",
        "null kernel",
        "O and dQ of the next head",
        "o",
        storing(lambda x: np.roll(x, 1, axis=2), "o", "dq"),
        (on.GROUPED,),
    ),
    Fault(
        "nan-everywhere",
        "null kernel",
        "every output is NaN",
        "nan",
        storing(lambda x: np.full_like(x, np.nan), *TENSORS, "lse"),
        (on.GAUSSIAN,),
    ),
    Fault(
        "last-call",
        "null kernel",
        "the outputs of the call before",
        "o",
        LastCall,
        (on.GAUSSIAN, on.WIDE),
    ),
    Fault(
        "unrepeatable",
        "null kernel",
        "one bit of O depends on which call it is",
        "repeat",
        Forgetful,
        (on.GAUSSIAN,),
    ),
    Fault(
        "stale-dump",
        "null kernel",
        "the dump shows the call before",
        "dump",
        StaleDump,
        (on.GAUSSIAN, on.WIDE),
    ),
)
"""Faults of this part."""
