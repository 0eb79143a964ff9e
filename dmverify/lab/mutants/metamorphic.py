"""Kernels that are right on one question and wrong on a relative of it.

Each has a condition on the numbers under which dK and O come out doubled. On the mutant's case the
outputs are right, so that only the relation of the check that names it can tell: a case that meets
the condition itself turns the condition around.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from dmverify.conformance.families import generate
from dmverify.lab.mutants.catalogue import MUTANTS
from dmverify.lab.mutants.wrong import Wrong
from dmverify.spec.case import F32, Case, Inputs, Outputs

Condition = Callable[[Inputs], bool]


class Touchy(Wrong):
    """The simulation, wrong where a condition holds.

    Args:
        condition: On the inputs.
    """

    def __init__(self, condition: Condition) -> None:
        super().__init__("touchy")
        self._condition = condition

    def backward(self, case: Case) -> Outputs:
        """Doubled where the condition holds."""
        outputs = super().backward(case)
        if not self._condition(case.inputs):
            return outputs
        two = np.float32(2)
        return replace(outputs, o=two * outputs.o, dk=two * outputs.dk)


def _sum(x: F32) -> float:
    return float(x.astype(np.float64).sum())


CONDITIONS: dict[str, Condition] = {
    "touchy-batch": lambda inputs: inputs.q.shape[0] > 1,
    "touchy-heads": lambda inputs: _sum(inputs.k[:, :, 0]) > _sum(inputs.k[:, :, -1]),
    "touchy-power-v": lambda inputs: float(np.abs(inputs.v).max()) > 8,
    "touchy-power-do": lambda inputs: float(np.abs(inputs.do).max()) > 8,
    "touchy-power-qk": lambda inputs: float(np.abs(inputs.k).max()) < 1,
    "touchy-signs-qk": lambda inputs: _sum(inputs.q[..., 1]) > 0,
    "touchy-signs-v": lambda inputs: _sum(inputs.v[..., 1]) > 0,
    "touchy-future": lambda inputs: float(np.abs(inputs.v[:, -2:]).max()) > 5,
}
"""By the mutant's id."""


def unlike_its_case(name: str) -> Touchy:
    """Wrong on all that is unlike the mutant's case in the condition."""
    condition = CONDITIONS[name]
    (case,) = MUTANTS[name].cases
    met = condition(generate(case, contract=Touchy.contract).inputs)
    return Touchy(lambda inputs: condition(inputs) is not met)


MUTATIONS: dict[str, Callable[[], Wrong]] = {
    name: partial(unlike_its_case, name) for name in CONDITIONS
}
"""By the mutant's id."""
