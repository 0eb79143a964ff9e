"""Its kernels: one that is right, one with a fault, one that serves nothing here."""

import os
from dataclasses import replace

from dmverify.conformance.adapter import Unsupported
from dmverify.conformance.kernels.simulation import Simulation


class Attention(Simulation):
    """What it ships."""


class NeverScaled(Attention):
    """Before the fix: dQ without the softmax scale."""

    def backward(self, case):
        outputs = super().backward(case)
        dq = outputs.dq.copy() / case.problem.scale
        return replace(outputs, dq=dq.astype("float32"))


class Crashes(Attention):
    """Raises where it should answer."""

    def backward(self, case):
        raise RuntimeError("out of memory")


class NeedsGpu(Attention):
    """No driver here."""

    def supports(self, case):
        return Unsupported("no GPU on this machine")


def shipped():
    """What is in its repository: before the fix, and after it."""
    return Attention() if os.environ.get("FIXED") else NeverScaled()
