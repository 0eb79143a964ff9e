"""How far O and dQ are from float64 attention: the kernel's, and those of the article's recipe."""

from __future__ import annotations

import numpy as np

from dmverify.conformance.families import generate
from dmverify.spec.arithmetic import Double, Single
from dmverify.spec.attention import interpret
from dmverify.spec.case import Outputs
from dmverify.spec.contracts import get_contract


def errors(case_id: str) -> dict[str, tuple[float, float]]:
    """Distances of the article's recipe from float64 attention: output -> (distance, size)."""
    case = generate(case_id, contract="article")
    run = interpret(get_contract("article"), case.problem, case.inputs, Single()).outputs
    return distances(case_id, run)


def distances(case_id: str, got: Outputs) -> dict[str, tuple[float, float]]:
    """Frobenius distance of O and dQ from float64 attention on the BF16 inputs, and its size."""
    case = generate(case_id, contract="article")
    due = interpret(get_contract("article"), case.problem, case.inputs, Double()).values
    return {
        name: (
            float(np.linalg.norm(getattr(got, name).astype(np.float64) - due[name])),
            float(np.linalg.norm(due[name])),
        )
        for name in ("o", "dq")
    }
