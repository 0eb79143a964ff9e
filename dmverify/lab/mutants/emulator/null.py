"""Kernels that do nothing right, or that remember what they should not.

Kernels that remember or forget between calls are no change of one run, so they are written out.
"""

from __future__ import annotations

import numpy as np

from dmverify.conformance.adapter import Forward
from dmverify.lab.mutants.emulator.kernel import Mutated
from dmverify.lab.mutants.emulator.mutation import Mutation
from dmverify.lab.mutants.emulator.shared import TENSORS, storing
from dmverify.spec.case import Case, Internals, Outputs


class LastCall(Mutated):
    """Answers every call with the outputs of the case before, if their shapes agree."""

    def __init__(self) -> None:
        super().__init__("last-call", Mutation())
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


class Forgetful(Mutated):
    """The last bit of one element of O depends on which call it is."""

    def __init__(self) -> None:
        super().__init__("unrepeatable", Mutation())

    def forward(self, case: Case) -> Forward:
        """O with one bit changed."""
        answer = super().forward(case)
        o = answer.o.copy()
        o.reshape(-1).view(np.uint32)[:1] ^= np.uint32(0x10000)
        return Forward(o, answer.lse)


class StaleDump(Mutated):
    """Shows the inside of the call before, if its shapes agree."""

    def __init__(self) -> None:
        super().__init__("stale-dump", Mutation())
        self._kept: list[Internals] = []

    def internals(self, case: Case) -> Internals | None:
        """The kept numbers; those of this call are kept for the next."""
        shown = super().internals(case)
        if shown is None:
            return None
        self._kept = [*self._kept[-1:], shown]
        old, new = self._kept[0], self._kept[-1]
        return old if old.p.shape == new.p.shape else new


MUTATIONS = {
    "zeros": storing(np.zeros_like, *TENSORS),
    "negated": storing(np.negative, *TENSORS),
    "doubled": storing(lambda x: x * np.float32(2), *TENSORS),
    "one-sixteenth-more": storing(lambda x: x * np.float32(1.0625), *TENSORS),
    "rotated-heads": storing(lambda x: np.roll(x, 1, axis=2), "o", "dq"),
    "nan-everywhere": storing(lambda x: np.full_like(x, np.nan), *TENSORS, "lse"),
    "last-call": LastCall,
    "unrepeatable": Forgetful,
    "stale-dump": StaleDump,
}
"""By the mutant's id."""
