"""NaN and infinity: in one element of one tensor, or in the memory around a tensor.

The specification says how far one spreads (``scaling.rules``, then the dots of its row or block);
a kernel must neither swallow nor spread it. ``around``: the tensors are views into buffers whose
other elements are NaN, before, between and after, so a read out of bounds shows.
"""

from __future__ import annotations

import numpy as np

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.family import Variant
from dmverify.conformance.families.layouts import framed
from dmverify.conformance.families.tensors import NAMES, as_inputs, gaussian
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem

SPECIAL = {
    **{
        f"{name}-{word}": Variant({"tensor": name, "value": value}, flags=("nonfinite",))
        for name in NAMES
        for word, value in (("nan", np.nan), ("inf", np.inf), ("minus-inf", -np.inf))
    },
    "around": Variant({"around": True}, flags=("nonfinite", "strided")),
}


def specials(
    draws: Draws, problem: Problem, *, tensor: str = "", value: float = 0.0, around: bool = False
) -> Inputs:
    """One special value at a drawn place, or NaN around every tensor."""
    made = gaussian(draws, problem)
    if around:
        finite = as_inputs(made)
        return Inputs(**{name: framed(x, np.nan) for name, x in finite.items()})
    place = draws.order("place", made[tensor].size)[:1]
    made[tensor].reshape(-1)[place] = value
    return as_inputs(made)
