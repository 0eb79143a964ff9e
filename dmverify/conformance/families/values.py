"""Families whose point is the distribution of values: Gaussian, constant, offset, outliers.

Rounding errors of zero-mean data cancel in sums, so most faults look like noise on it. A common
offset takes the cancellation away: a truncating accumulator drifts, and a correction that is off by
a relative error moves every gradient.
"""

from __future__ import annotations

import numpy as np

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.elementary import LN2, exp2
from dmverify.conformance.families.family import Variant
from dmverify.conformance.families.tensors import as_inputs, gaussian
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem

SHIFT_GRID = 8.0  # multiples of 1/8 below 16: adding an offset up to 16 is exact in BF16
OUTLIER_STEP = 16

GAUSSIAN = {f"spread-{s}": Variant({"spread": float(s)}) for s in (1, 2, 4, 8, 16, 64)}

# Between E4M3 numbers, whatever power of two scales them: 1.1 lies between 1 and 1.125, and so on.
CONSTANT = {
    "tenth": Variant({"value": 0.1}),
    "third": Variant({"value": 1 / 3}),
    "near-one": Variant({"value": 1.0625}),
    "negative": Variant({"value": -2.7}),
    "large": Variant({"value": 300.0}),
}

POSITIVE = {
    "short": Variant({}, {"queries": 64, "keys": 320}),
    "keys-1k": Variant({}, {"queries": 64, "keys": 1024, "head_dim": 128, "causal": False}),
    **{
        f"keys-{k}k": Variant({}, {"queries": 64, "keys": 1024 * k}, ("on-demand",))
        for k in (4, 16, 64)
    },
}

OFFSETS = {
    f"{tensors}-{c}": Variant({"tensors": tensors, "offset": float(c)})
    for tensors in ("k", "v", "kv")
    for c in (0, 1, 4, 16, 64)
}

OUTLIERS = {
    "channels": Variant({"v_gain": 10.0}),
    "rows": Variant({"heavy_rows": True}),
    "channels-and-rows": Variant({"v_gain": 10.0, "heavy_rows": True}),
    "key-channels": Variant({"k_gain": 30.0}),
    "disjoint-channels": Variant({"v_gain": 30.0, "do_gain": 30.0}),
    "one-element": Variant({"spike": 1e4}),
}


def gaussian_heads(draws: Draws, problem: Problem, *, spread: float) -> Inputs:
    """Standard normal tensors, q times the logit spread."""
    tensors = gaussian(draws, problem)
    tensors["q"] = tensors["q"] * spread
    return as_inputs(tensors)


def constant_v(draws: Draws, problem: Problem, *, value: float) -> Inputs:
    """Every element of v is one number, which E4M3 does not have."""
    tensors = gaussian(draws, problem)
    tensors["v"] = np.full_like(tensors["v"], value)
    return as_inputs(tensors)


def positive_v(draws: Draws, problem: Problem) -> Inputs:
    """v ~ N(1, 1): same-sign products, so a truncating chain is biased."""
    tensors = gaussian(draws, problem)
    tensors["v"] = 1.0 + tensors["v"]
    return as_inputs(tensors)


def offset(draws: Draws, problem: Problem, *, tensors: str, offset: float) -> Inputs:
    """An offset added to every element of k, v or both; exact for offsets up to 16."""
    made = gaussian(draws, problem)
    for name in ("k", "v"):
        made[name] = np.floor(made[name] * SHIFT_GRID + 0.5) / SHIFT_GRID
    for name in tensors:
        made[name] = made[name] + offset
    return as_inputs(made)


def outliers(
    draws: Draws,
    problem: Problem,
    *,
    v_gain: float = 1.0,
    k_gain: float = 1.0,
    do_gain: float = 1.0,
    heavy_rows: bool = False,
    spike: float = 0.0,
) -> Inputs:
    """Every 16th channel enlarged, rows of do times exp(N(0, 1)), or one huge element of v.

    The channels of do lie between those of v: norms are large where products are not, so a bound by
    norms is loose.
    """
    tensors = gaussian(draws, problem)
    for name, gain in (("v", v_gain), ("k", k_gain)):
        tensors[name][..., ::OUTLIER_STEP] *= gain
    tensors["do"][..., OUTLIER_STEP // 2 :: OUTLIER_STEP] *= do_gain
    if heavy_rows:
        shape = (*tensors["do"].shape[:-1], 1)
        tensors["do"] = tensors["do"] * exp2(draws.normal("row gain", shape) / LN2)
    if spike:
        tensors["v"].reshape(-1)[draws.order("spike", tensors["v"].size)[:1]] = spike
    return as_inputs(tensors)
