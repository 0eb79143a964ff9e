"""The tensors that builders start from and end with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.elementary import F64
from dmverify.spec.case import F32, Inputs
from dmverify.spec.formats import BF16
from dmverify.spec.problem import Problem

NAMES = ("q", "k", "v", "do")


def gaussian(draws: Draws, problem: Problem) -> dict[str, F64]:
    """q, k, v, do of standard normal numbers, (B, N, H, D) each."""
    shapes = problem.shapes()
    return {name: draws.normal(name, shapes[name]) for name in NAMES}


def bf16(x: F64) -> F32:
    """Rounded to float32 and then to BF16, ties to even; infinity and NaN are kept."""
    rounded: F32 = BF16.round(x.astype(np.float32), saturate=False)
    return rounded


def as_inputs(tensors: Mapping[str, F64]) -> Inputs:
    """Inputs from float64 tensors, each rounded to BF16."""
    return Inputs(**{name: bf16(tensors[name]) for name in NAMES})
