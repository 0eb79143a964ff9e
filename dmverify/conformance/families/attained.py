"""Inputs that bring a term of the ledger as near to its bound as is known (``spec.ledger``).

| variant | term | how |
|---|---|---|
| grad | grad | dO on ties of E4M3 that all round down, V of one sign |
| out | out | P uniform, O in the middle between two BF16 numbers, at the lower end of a binade |
| prob | prob | all weights but one just above the same tie of E4M3 |
| cast | cast | every dS on a tie that is rounded down: 21 to 20, -19 to -20, -23 to -24 |
| few-keys | match, balance, norm | three keys: a bound that counts roundings has few to count |
| few-channels | acc, elem | besides, few channels that are not 0 |
| one-large | accdP, dot | one product of a dot over channels is some 2^22 times the others |

The first four hold by construction, in the default shape; of the others a table says which seed's
rows come nearest (``attained.toml``, one share a term and contract, which a test measures again).
A term whose bound counts roundings in any order is not attained: no order makes every rounding go
one way.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.elementary import F64
from dmverify.conformance.families.family import Variant
from dmverify.conformance.families.tensors import NAMES, as_inputs, gaussian
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem

PIN = 448.0  # as the largest of a block it makes the scale 1
TIE = 17.0  # between the codes 16 and 18
WEIGHT = 272.0  # between the codes 256 and 288
ABOVE = 2.0**-16  # of a weight: far above the float32 errors of a logit, far below a code
LOW_END = (1.0, 1.125)  # two codes whose mean over keys reaches 1 + 1/256
SMALL = 0.25  # of what stands beside the pins: products some 2^22 times smaller
UP, DOWN = (16.0, 5.0), ((16.0, 3.0), (16.0, 7.0))  # pairs of codes whose sums are on ties

ATTAINED = {
    "grad": Variant({"term": "grad"}),
    "out": Variant({"term": "out"}),
    "prob": Variant({"term": "prob"}, {"softmax_scale": 0.001095}),
    "cast": Variant({"term": "cast"}),
    "few-keys": Variant({"term": "few-keys"}, {"keys": 3}),
    "few-channels": Variant({"term": "few-channels"}, {"keys": 3}),
    "one-large": Variant({"term": "one-large"}, {"keys": 3, "head_dim": 32}),
}


def attained(draws: Draws, problem: Problem, *, term: str) -> Inputs:
    """The tensors of one variant."""
    return as_inputs(_BUILD[term](draws, problem))


def _zeros(problem: Problem) -> dict[str, F64]:
    shapes = problem.shapes()
    return {name: np.zeros(shapes[name]) for name in NAMES}


def _grad(draws: Draws, problem: Problem) -> dict[str, F64]:
    made = _zeros(problem)
    made["do"][...], made["v"][...] = TIE, 1.0
    made["do"][..., -1], made["v"][..., -1] = PIN, 0.0
    return made


def _out(draws: Draws, problem: Problem) -> dict[str, F64]:
    """One key in 32 has the higher code: the mean is 1 + 1/256, and BF16's even neighbour is 1."""
    made = _zeros(problem)
    made["v"][...], made["do"][...] = LOW_END[0], 1.0
    made["v"][:, ::32] = LOW_END[1]
    made["v"][..., -1], made["do"][..., -1] = 1.75, 0.0  # 1.75 / 448 is a power of two
    return made


def _prob(draws: Draws, problem: Problem) -> dict[str, F64]:
    """The first key is the maximum; the others have one logit, which the softmax scale places."""
    made = _zeros(problem)
    made["q"][..., 0] = 1.0
    made["k"][:, 0, :, 0] = 456.0
    made["v"][...], made["do"][...] = 1.0, 1.0
    return made


def _cast(draws: Draws, problem: Problem) -> dict[str, F64]:
    """Half of the keys have dS = 21 units, a quarter -19, a quarter -23; row 0 pins 448."""
    made = _zeros(problem)
    keys = np.arange(problem.keys)
    for channel in range(2):
        low, high = (np.full(problem.keys, -pair[channel]) for pair in DOWN)
        down = np.where(keys % 4 == 1, low, high)
        made["v"][..., channel] = np.where(keys % 2, down, UP[channel])[None, :, None]
    made["v"][..., 2] = np.where(keys % 2, -PIN, PIN)[None, :, None]
    made["do"][:, 1:, :, :2], made["do"][:, 0, :, 2] = PIN, PIN
    return made


def _few_keys(draws: Draws, problem: Problem) -> dict[str, F64]:
    return gaussian(draws, problem)


def _few_channels(draws: Draws, problem: Problem) -> dict[str, F64]:
    made = gaussian(draws, problem)
    for x in made.values():
        x[..., 3:] = 0.0
    return made


def _one_large(draws: Draws, problem: Problem) -> dict[str, F64]:
    made = gaussian(draws, problem)
    for name in ("v", "do"):
        made[name][..., 1:] *= SMALL
        made[name][..., 0] = PIN
    return made


_BUILD = {
    "grad": _grad,
    "out": _out,
    "prob": _prob,
    "cast": _cast,
    "few-keys": _few_keys,
    "few-channels": _few_channels,
    "one-large": _one_large,
}


@dataclass(frozen=True)
class Attained:
    """How near a case comes to the bound of a term.

    Attributes:
        term: Term of the ledger.
        contract: Under which the bound holds.
        case: The case's id.
        share: abs(term) over bound, in the row where it is largest.
    """

    term: str
    contract: str
    case: str
    share: float


@cache
def shares() -> tuple[Attained, ...]:
    """The table, one row a term."""
    text = files(__package__).joinpath("attained.toml").read_text(encoding="utf-8")
    rows: dict[str, dict[str, Any]] = tomllib.loads(text)
    return tuple(Attained(term, **row) for term, row in rows.items())
