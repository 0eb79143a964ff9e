"""Bands of the contracts that the intervals here do not cover, from the steps themselves.

``dmverify.spec.arithmetic.Enclosure`` interprets the attention steps in intervals, whatever the
contract. It takes the key mean as the exact mean rounded once, so that a kernel with another order
there is judged with its codes as they would be without that freedom. Where a contract is covered
here, its own intervals are used, which leave the order of the mean open.

Not covered: bits (see ``dmverify.spec.arithmetic.Bits``).
"""

from __future__ import annotations

import numpy as np

from dmverify.spec.arithmetic.enclosure import Enclosure
from dmverify.spec.attention import interpret
from dmverify.spec.case import F64, Inputs
from dmverify.spec.contracts import Contract
from dmverify.spec.enclosure.bands import Band, bf16_band, single_band
from dmverify.spec.enclosure.interval import Interval, closed
from dmverify.spec.enclosure.special import must_nan
from dmverify.spec.problem import Problem

STORED = ("o", "dq", "dk", "dv")


def interpreted(contract: Contract, problem: Problem, inputs: Inputs) -> dict[str, Band]:
    """The band of every output, in the shapes of ``Outputs``."""
    run = interpret(contract, problem, inputs, Enclosure(contract))
    flags = must_nan(contract, problem, inputs)
    dead = np.isneginf(run.values["lse"])
    bands = {}
    for name, value in run.values.items():
        whole = _interval(value, run.radii[name])
        if name == "lse":
            whole = Interval(np.where(dead, -np.inf, whole.lo), np.where(dead, -np.inf, whole.hi))
        bands[name] = (bf16_band if name in STORED else single_band)(whole, flags[name])
    return bands


def _interval(mid: F64, rad: F64) -> Interval:
    with np.errstate(invalid="ignore"):
        return closed(np.nextafter(mid - rad, -np.inf), np.nextafter(mid + rad, np.inf))
