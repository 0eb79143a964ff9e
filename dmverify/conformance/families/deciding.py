"""Inputs in which one element decides each maximum: every row, key and channel somewhere.

A maximum that leaves out one row of its block is right wherever another row is the largest, which
is nearly always. Here head h has one row of queries, and its key head one key, that stand out:
counting from the end, row h and the key of the key head's number, in channels that take turns.

| variant | what the row and the key that stand out decide |
|---|---|
| spikes | amax of Q, K, V, dO; row and window maximum; a tile's largest P and dS; both norms |
| shift-level | abs(shift) + abs(delta) in the binade of dS, by the shift where there is one |
| delta-level | the same by delta: the row's largest logit has dP = 0 |

spikes: the row and the key are 16 and 32 times as large as the others, one element of v and do 4
times as large again. So without one of the norms, or without a row in it, dS has another power of
two; most of its other elements are subnormal codes, and other ones then.

levels: every row has about the norm R, and R^2 stays below 65,536. delta of one row alone, in each
tile of queries, carries the sum of the binade's bound beyond it.
"""

from __future__ import annotations

import numpy as np

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.elementary import F64
from dmverify.conformance.families.family import Variant
from dmverify.conformance.families.tensors import as_inputs, gaussian
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem

QUERY_SPIKE, KEY_SPIKE = 16.0, 2.0  # times the scale 1/8: a logit of 4
KEY_NOISE = 0.125
LARGE, LARGER = 32.0, 4.0  # rows of v and do, and one element of them again
V_TURN, DO_TURN = 7, 13  # channels after those of q and k

TILE = 64
R, PART = 230.0, 92.0  # R^2 + PART^2 < 2^16 <= R^2 + 2 PART^2
R_CHANNEL = {"v": 1, "do": 2}
PART_CHANNEL, LOGIT_CHANNEL = 0, 3
NOISE = 0.5
LOGIT_LEAD = 1.5  # of the first key: more than the noise of any other, and still a small P

_LEVELS = {"heads": 32, "kv_heads": 1}
DECIDING = {
    "spikes": Variant({"what": "spikes"}),
    "shift-level": Variant({"what": "shift-level"}, _LEVELS),
    "delta-level": Variant({"what": "delta-level"}, _LEVELS),
}


def deciding(draws: Draws, problem: Problem, *, what: str) -> Inputs:
    """Gaussian noise under one spike a head and tensor, or under levels of known size."""
    made = gaussian(draws, problem)
    if what == "spikes":
        _spikes(made, problem)
    else:
        _levels(made, problem, largest_has_part=what == "shift-level")
    return as_inputs(made)


def _spikes(made: dict[str, F64], problem: Problem) -> None:
    made["k"] *= KEY_NOISE
    head = np.arange(problem.heads)
    key_head = head // problem.group
    width = problem.head_dim
    row = (problem.queries - 1 - head) % max(problem.queries, 1)
    made["q"][:, row, head, key_head % width] = QUERY_SPIKE
    made["do"][:, row, head] *= LARGE
    made["do"][:, row, head, (head + DO_TURN) % width] = LARGE * LARGER**2
    head = np.arange(problem.kv_heads)
    key = (problem.keys - 1 - head) % max(problem.keys, 1)
    made["k"][:, key, head, head % width] = KEY_SPIKE
    made["v"][:, key, head] *= LARGE
    made["v"][:, key, head, (head + V_TURN) % width] = LARGE * LARGER**2


def _levels(made: dict[str, F64], problem: Problem, *, largest_has_part: bool) -> None:
    for name in made:
        made[name] *= NOISE
        made[name][..., [PART_CHANNEL, LOGIT_CHANNEL, *R_CHANNEL.values()]] = 0.0
    side = np.where(np.arange(problem.keys) % 2, -1.0, 1.0)[None, :, None]
    made["v"][..., R_CHANNEL["v"]] = R * side
    made["do"][..., R_CHANNEL["do"]] = R
    made["v"][..., PART_CHANNEL] = PART
    made["q"][..., LOGIT_CHANNEL] = 1.0
    made["k"][:, :1, :, LOGIT_CHANNEL] = LOGIT_LEAD / problem.scale
    if not largest_has_part:
        made["v"][:, :1, :, PART_CHANNEL] = 0.0
    for row, head in deciding_rows(problem):
        made["do"][:, row, head, PART_CHANNEL] = PART


def deciding_rows(problem: Problem) -> list[tuple[int, int]]:
    """Row and head of every level: one in each tile, every other row of it in turns of the heads.

    The rows of odd tiles are those that the even ones leave out.
    """
    found = []
    for start in range(0, problem.queries, TILE):
        tile = min(TILE, problem.queries - start)
        for head in range(problem.heads):
            found.append((start + (tile - 1 - 2 * head - start // TILE % 2) % tile, head))
    return found
