"""Inputs whose numbers tell which element they are: an index error names itself.

tagged: key j and the queries that look for it carry the same random signs, so row i attends to one
key t(i) only and O_i is that key's row of v. v's channels hold the digits, in base 13, of (batch,
head, token) of the key, do's those of the query; both are exact, since one channel holds 14 and the
scale of the block is 2^-5. ``read_tag`` turns a row of O (or of dV) back into the three numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.elementary import F64
from dmverify.conformance.families.family import Variant
from dmverify.conformance.families.tensors import as_inputs
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem

BASE = 13
DIGITS = {"batch": (0, 2), "head": (2, 2), "token": (4, 4)}  # first channel and number of digits
PIN_CHANNEL = 8
PIN = 14.0  # 14 / 448 = 2^-5, under which the digits 0 to 12 are exact
SIGN_SIZE = 8.0

TAGGED = {
    "own": Variant({"target": "own"}),
    "reversed": Variant({"target": "reversed"}, {"causal": False}),
    "scattered": Variant({"target": "scattered"}, {"causal": False}),
    "groups": Variant({"target": "own"}, {"heads": 6, "kv_heads": 2, "batch": 2}),
    "more-keys": Variant({"target": "own"}, {"queries": 65, "keys": 193}),
}


def tagged(draws: Draws, problem: Problem, *, target: str) -> Inputs:
    """One-hot attention from query i to key ``targets(...)[i]``, tags in v and do."""
    shapes = problem.shapes()
    signs = SIGN_SIZE * draws.signs("signs", (problem.keys, problem.head_dim))
    sought = targets(draws, problem, target=target)
    return as_inputs(
        {
            "k": np.broadcast_to(signs[None, :, None, :], shapes["k"]),
            "q": np.broadcast_to(signs[sought][None, :, None, :], shapes["q"]),
            "v": tags(shapes["v"]),
            "do": tags(shapes["do"]),
        }
    )


def targets(draws: Draws, problem: Problem, *, target: str) -> npt.NDArray[np.int64]:
    """The key that every query attends to: its own (bottom right), mirrored, or scattered."""
    own = np.clip(np.arange(problem.queries) + problem.offset, 0, max(problem.keys - 1, 0))
    if target == "own":
        return own
    order = {"reversed": np.arange(problem.keys)[::-1]}.get(target)
    return (draws.order("targets", problem.keys) if order is None else order)[own]


def tags(shape: tuple[int, ...]) -> F64:
    """Digits of (batch, head, token) along the channels of a (B, N, H, D) tensor."""
    batch, token, head, _ = np.indices((*shape[:3], 1), dtype=np.int64)
    out = np.zeros(shape)
    for name, number in (("batch", batch), ("head", head), ("token", token)):
        first, count = DIGITS[name]
        for digit in range(count):
            out[..., first + digit] = (number[..., 0] // BASE**digit) % BASE
    out[..., PIN_CHANNEL] = PIN
    return out


def read_tag(row: npt.NDArray[np.floating]) -> dict[str, int]:
    """(batch, head, token) of a row of tags (D,), digits rounded to the nearest whole number.

    >>> read_tag(tags((1, 200, 2, 32))[0, 199, 1])
    {'batch': 0, 'head': 1, 'token': 199}
    """
    return {
        name: sum(int(np.rint(row[first + digit])) * BASE**digit for digit in range(count))
        for name, (first, count) in DIGITS.items()
    }
