"""Kernels that are right on one question and wrong on a relative of it.

Each has a condition on the numbers under which dK and O come out doubled. On a case that does not
meet it the outputs are right, so that only the relation of the check that it names can tell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dmverify.conformance.kernels.simulation import Simulation
from dmverify.spec.case import Case, Inputs, Outputs
from dmverify.spec.recording import Provenance


class Touchy(Simulation):
    """The simulation, wrong where a condition holds.

    Args:
        condition: On the inputs.
    """

    def __init__(self, condition: Callable[[Inputs], bool]) -> None:
        self._condition = condition

    @property
    def info(self) -> Provenance:
        """Named after what it is."""
        return replace(super().info, kernel="touchy")

    def backward(self, case: Case) -> Outputs:
        """Doubled where the condition holds."""
        outputs = super().backward(case)
        if not self._condition(case.inputs):
            return outputs
        two = np.float32(2)
        return replace(outputs, o=two * outputs.o, dk=two * outputs.dk)


@dataclass(frozen=True)
class Touch:
    """A condition, and a case that does not meet it though its relative does."""

    condition: Callable[[Inputs], bool]
    case: str = "gaussian/spread-2@0"


def _sum(x: np.typing.NDArray[np.float32]) -> float:
    return float(x.astype(np.float64).sum())


TOUCHES: dict[str, Touch] = {
    "batch": Touch(lambda inputs: inputs.q.shape[0] > 1),
    "heads": Touch(lambda i: _sum(i.k[:, :, 0]) > _sum(i.k[:, :, -1]), "permutation/base@2"),
    "power-v": Touch(lambda inputs: float(np.abs(inputs.v).max()) > 8),
    "power-do": Touch(lambda inputs: float(np.abs(inputs.do).max()) > 8),
    "power-qk": Touch(lambda inputs: float(np.abs(inputs.k).max()) < 1),
    "signs-qk": Touch(lambda inputs: _sum(inputs.q[..., 1]) > 0, "gaussian/spread-2@0"),
    "signs-v": Touch(lambda inputs: _sum(inputs.v[..., 1]) > 0, "gaussian/spread-2@0"),
    "future": Touch(lambda inputs: float(np.abs(inputs.v[:, -2:]).max()) > 5, "future/base@0"),
}
"""By the check that tells."""
