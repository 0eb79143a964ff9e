"""Families whose point is the shape of the rows of logits.

Channel 0 carries a level per key: q there is 1 / scale, so a key's logit is its level plus noise
from the other channels. Levels rise, fall, tie, or single out one key. The softmax scale is 1/8, so
that 1 / scale is a BF16 number for every head dim.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.elementary import F64
from dmverify.conformance.families.family import Variant
from dmverify.conformance.families.tensors import as_inputs, gaussian
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem

SCALE = {"softmax_scale": 0.125}
GAIN = 8.0  # 1 / scale
NOISE = 0.25
TILE = 64
DIAGONAL_SIZE = 6.0  # random signs of this size: own key at 36 D / 8, others near 0

ROWS = {
    **{
        f"gap-{gap:g}": Variant({"levels": "one-hot", "step": gap}, SCALE)
        for gap in (0.25, 1.0, 4.0, 8.0, 16.0, 64.0, 256.0)
    },
    "rising": Variant({"levels": "rising", "step": 12.0}, SCALE),
    "falling": Variant({"levels": "falling", "step": 12.0}, SCALE),
    "rising-slowly": Variant({"levels": "rising", "step": 0.75}, SCALE),
    "zigzag": Variant({"levels": "zigzag", "step": 40.0}, SCALE),
    "ties": Variant({"levels": "ties", "step": 20.0}, SCALE),
    "diagonal": Variant({"levels": "diagonal", "step": 0.0}, SCALE),
}

SIZES = {
    **{f"logits-1e{n}": Variant({"size": 10.0**n}) for n in range(1, 6)},
    "negative-scale": Variant({"size": 4.0}, {"softmax_scale": -0.125}),
    "negative-scale-large": Variant({"size": 1e3}, {"softmax_scale": -0.125}),
    "zero-scale": Variant({"size": 4.0}, {"softmax_scale": 0.0}),
    "tiny-scale": Variant({"size": 4.0}, {"softmax_scale": 2.0**-100}),
}


def rows(draws: Draws, problem: Problem, *, levels: str, step: float) -> Inputs:
    """Logits that follow a pattern along the keys (``LEVELS``), or favour the row's own key."""
    tensors = gaussian(draws, problem)
    for name in ("q", "k"):
        tensors[name] = tensors[name] * NOISE
    if levels == "diagonal":
        _own_key(draws, problem, tensors)
    else:
        tensors["q"][..., 0] = GAIN
        level = LEVELS[levels](problem.keys)
        if levels == "ties":  # equal keys, noise and all: a tie in every bit
            tensors["k"][:, level > 0] = tensors["k"][:, :1]
        tensors["k"][..., 0] = step * level[None, :, None]
    return as_inputs(tensors)


def sizes(draws: Draws, problem: Problem, *, size: float) -> Inputs:
    """Logits of root mean square ``size`` (before the scale's sign), so that |LSE| is large."""
    tensors = gaussian(draws, problem)
    tensors["q"] = tensors["q"] * size
    return as_inputs(tensors)


def _own_key(draws: Draws, problem: Problem, tensors: dict[str, F64]) -> None:
    signs = DIAGONAL_SIZE * draws.signs("signs", (problem.keys, problem.head_dim))
    own: npt.NDArray[np.int64] = np.clip(
        np.arange(problem.queries) + problem.offset, 0, max(problem.keys - 1, 0)
    )
    tensors["k"] = np.broadcast_to(signs[None, :, None, :], tensors["k"].shape)
    tensors["q"] = np.broadcast_to(signs[own][None, :, None, :], tensors["q"].shape)


def _one_hot(keys: int) -> F64:
    return np.where(np.arange(keys) == 0, 1.0, 0.0)


def _rising(keys: int) -> F64:
    return np.floor(np.arange(keys) / TILE)


def _falling(keys: int) -> F64:
    return -_rising(keys)


def _zigzag(keys: int) -> F64:
    return np.where(_rising(keys) % 2 == 1, 1.0, 0.0)


def _ties(keys: int) -> F64:
    return np.where(np.arange(keys) % 5 == 0, 1.0, 0.0)


LEVELS = {
    "one-hot": _one_hot,
    "rising": _rising,
    "falling": _falling,
    "zigzag": _zigzag,
    "ties": _ties,
}
