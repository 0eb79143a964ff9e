"""LSE: its base, offset, mean, and where it is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.altered import with_operations
from dmverify.lab.mutants.emulator.mutation import Call, Mutation
from dmverify.lab.mutants.emulator.shared import storing
from dmverify.spec.attention.windows import P_MAX_EXPONENT
from dmverify.spec.case import F32


def _lower_reference(call: Call) -> Any:
    return call.result(m=call["m"] - P_MAX_EXPONENT)


def _without_mean(call: Call) -> Any:
    return call.result(choices=replace(call["choices"], centred=False))


def _by_position(lse: F32) -> F32:
    """Stored (position, head) and read (head, position)."""
    return np.ascontiguousarray(lse.swapaxes(1, 2)).reshape(lse.shape)


MUTATIONS = {
    "lse-base-2": Mutation(
        {"windows.lse": with_operations(ln2=lambda base: np.ones((1, 1), np.float32))}
    ),
    "lse-natural-log": Mutation({"windows.lse": with_operations(log2=lambda base, x: np.log(x))}),
    "lse-offset-missing": Mutation({"windows.lse": _lower_reference}),
    "lse-mean-missing": Mutation({"windows.lse": _without_mean}),
    "lse-head-stride": storing(_by_position, "lse"),
    "lse-block-index": storing(lambda lse: np.roll(lse, 64, axis=-1), "lse"),
}
"""By the mutant's id."""
