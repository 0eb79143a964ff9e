"""Inputs on the decision points of E4M3: ties, their neighbours, the ends of the range, -0.

Every block's amax is pinned to 448, so its scale is exactly 1 under every scale rule and an element
meets the cast as it is. (With another amax a BF16 number is either on a midpoint or at least a part
in 2^13 away, since both are ratios of small integers; within an ulp of float32 come only operands
that were centred.) One channel is pinned and is zero in the partner tensor, so it adds nothing to a
dot. Odd keys are the negatives of even ones, so that the mean of k is 0 and centring changes
nothing (the number of keys should be even).
"""

from __future__ import annotations

import numpy as np

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.elementary import F64
from dmverify.conformance.families.family import Variant
from dmverify.conformance.families.tensors import NAMES, as_inputs
from dmverify.spec.case import Inputs
from dmverify.spec.formats import BF16, E4M3
from dmverify.spec.problem import Problem

PIN = 448.0
PINNED = {"q": -1, "do": -1, "k": -2, "v": -2}  # q meets k and do meets v on different channels
SMALL_SCALE = {"softmax_scale": 2.0**-12}  # raw dots of such numbers are large

ROUNDING = {
    "ties": Variant({"points": "ties"}, SMALL_SCALE),
    "tie-neighbours": Variant({"points": "tie-neighbours"}, SMALL_SCALE),
    "top": Variant({"points": "top"}, SMALL_SCALE, ("saturation",)),
    "subnormals": Variant({"points": "subnormals"}, {"softmax_scale": 1.0}, ("underflow",)),
    "signed-zeros": Variant({"points": "signed-zeros"}, {"softmax_scale": 1.0}),
    "all-codes": Variant({"points": "all-codes"}, SMALL_SCALE),
}


def rounding_points(draws: Draws, problem: Problem, *, points: str) -> Inputs:
    """Every element drawn from one list of decision points, with random sign."""
    values = POINTS[points]()
    made = {}
    for name, shape in ((name, problem.shapes()[name]) for name in NAMES):
        index = draws.integers(name, shape, low=0, high=len(values)).astype(np.int64)
        x = values[index] * draws.signs(f"{name} signs", shape)
        for channel in set(PINNED.values()):
            x[..., channel] = PIN if channel == PINNED[name] else 0.0
        made[name] = x
    made["k"][:, 1::2] = -made["k"][:, : problem.keys // 2 * 2 : 2]
    return as_inputs(made)


def _values() -> F64:
    codes = np.arange(E4M3.max_code + 1, dtype=np.uint8)
    values: F64 = E4M3.decode(codes).astype(np.float64)
    return values


def _ties() -> F64:
    values = _values()
    return (values[1:] + values[:-1]) / 2


def _tie_neighbours() -> F64:
    """The BF16 numbers next to every midpoint."""
    codes = BF16.encode(_ties().astype(np.float32)).astype(np.int64)
    around = np.concatenate([codes - 1, codes + 1]).astype(np.uint16)
    neighbours: F64 = BF16.decode(around).astype(np.float64)
    return neighbours


def _top() -> F64:
    return np.array([416.0, 430.0, 432.0, 434.0, 440.0, 446.0, 448.0])


def _subnormals() -> F64:
    unit = E4M3.min_subnormal
    return unit * np.array([0.25, 0.5, 0.501953125, 0.75, 1.0, 1.5, 2.5, 3.0, 6.5, 7.0, 7.5, 8.0])


def _signed_zeros() -> F64:
    return np.array([0.0, 0.0, 0.0, 1.0])


POINTS = {
    "ties": _ties,
    "tie-neighbours": _tie_neighbours,
    "top": _top,
    "subnormals": _subnormals,
    "signed-zeros": _signed_zeros,
    "all-codes": _values,
}
