"""Ties in the casts of P and dS: numbers halfway between two codes, in most elements.

Operands come to ties by themselves (``rounding``); P and dS do not, since an exponential or a
quotient lies between. Here they do.

ds: q and k have no channel in common, so every logit is 0 and P is 1 / keys, a power of two. Keys
come in pairs, v and -v, so that delta is 0, or, with ``offset``, what one more channel of v has for
every key. dP - delta is a sum of two codes, an odd number of five bits, times a sign and a power of
two of the row: x is halfway between two codes, normal ones and subnormal ones, of either sign and
with the even one on either side. Every step before the cast is exact in any order. A gradient's row
or column mixes few codes, so a wrong one shows.

p: under the softmax scale P_SCALE, a key that lies MIDDLES below its window's largest raw score has
an exponential of 3.375 or 1.3125, both halfway between codes; an odd code is below the first and an
even one below the second. MIDDLES and TOPS, the scores with which no rounding leaves the middle,
were found by search, as were the rows of BACKWARD: pairs of scores for which the backward's P, a
product of an exponential with the inverse of the row's sum, is halfway. q holds the digits of a
row's two scores. A key of v has a channel of its own, and so has a row of do.

Both need a power-of-two number of keys and no mask, like ``integers``.
"""

from __future__ import annotations

import numpy as np

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.elementary import F64
from dmverify.conformance.families.exactness import require_exact_rows
from dmverify.conformance.families.family import Variant
from dmverify.conformance.families.tensors import NAMES, as_inputs
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem

PIN = 448.0  # the amax of every block: its scale is 1
HIGH, LOW, COMMON, V_PIN, DO_PIN = range(5)  # channels of v and do
BINADES = 4  # of the rows' sizes
COMMON_SIZE = 12.0

P_SCALE = 0.002915004813404427
DIGITS = 16.0 ** np.arange(3)
MIDDLES = (1485, 1809)
TOPS = (
    (
        1485,
        1545,
        1605,
        1666,
        1726,
        1786,
        1846,
        1906,
        1966,
        2026,
        2086,
        2146,
        2206,
        2266,
        2326,
        2438,
    ),
    (
        1809,
        1869,
        1929,
        1989,
        2049,
        2109,
        2169,
        2234,
        2296,
        2358,
        2469,
        2580,
        2743,
        2854,
        3076,
        3298,
    ),
)
BACKWARD = (
    (242, 157), (1843, 1536), (2295, 1752), (2306, 1116), (2594, 53), (2636, 1043), (2637, 797),
    (2902, 1552), (3487, 1290),
)  # fmt: skip

TIES = {
    "ds": Variant({"what": "ds"}),
    "ds-offset": Variant({"what": "ds-offset"}, flags=("offset",)),
    "p": Variant({"what": "p"}, {"softmax_scale": P_SCALE}),
}


def ties(draws: Draws, problem: Problem, *, what: str) -> Inputs:
    """Casts that meet midpoints of E4M3."""
    require_exact_rows(problem)
    return _p(draws, problem) if what == "p" else _ds(draws, problem, offset=what == "ds-offset")


def _p(draws: Draws, problem: Problem) -> Inputs:
    """Keys 0 and 2 have a row's larger and smaller score, keys 1 and 3 the negative ones."""
    made = {name: np.zeros(shape) for name, shape in problem.shapes().items() if name in NAMES}
    rows = [(top, top - d) for d, tops in zip(MIDDLES, TOPS, strict=True) for top in tops]
    scores = np.array([*rows, *BACKWARD], np.float64)
    batch, queries, heads, _ = made["q"].shape
    which = np.resize(np.arange(len(scores)), queries)
    for head in range(batch * heads):
        at = which[draws.order(f"rows {head}", queries)]
        made["q"][head // heads, :, head % heads, : 2 * len(DIGITS)] = (
            scores[at][..., None] // DIGITS % 16
        ).reshape(queries, -1)
    for key, side in enumerate((1.0, -1.0, 1.0, -1.0)):
        first = key // 2 * len(DIGITS)
        made["k"][:, key, :, first : first + len(DIGITS)] = side * DIGITS
    made["q"][..., -1] = PIN
    made["k"][:, :2, :, -2] = np.array([PIN, -PIN])[:, None]
    _one_hot(made["v"], np.arange(problem.keys), 0, problem.head_dim)
    _one_hot(made["do"], np.arange(queries), 0, problem.head_dim)
    return as_inputs(made)


def _ds(draws: Draws, problem: Problem, *, offset: bool) -> Inputs:
    """dS on midpoints of E4M3."""
    shapes, half = problem.shapes(), problem.head_dim // 2
    made = {name: np.zeros(shapes[name]) for name in ("q", "k", "v", "do")}
    pair = np.arange(problem.keys) % max(problem.keys // 2, 1)
    side = np.where(np.arange(problem.keys) < problem.keys // 2, 1.0, -1.0)[None, :, None]
    _one_hot(made["q"], np.arange(problem.queries), 0, half)
    _one_hot(made["k"], pair, half, half)
    made["k"] *= side[..., None]
    for channel, part in zip((HIGH, LOW), _parts(draws, problem), strict=True):
        made["v"][..., channel] = part[:, pair] * side
        made["do"][..., channel] = _row_sizes(draws, shapes["do"])
    if offset:
        made["v"][..., COMMON] = COMMON_SIZE
        made["do"][..., COMMON] = draws.signs("common", shapes["do"][:-1])
    made["v"][..., V_PIN] = PIN * side
    made["do"][..., DO_PIN] = PIN
    return as_inputs(made)


def _one_hot(x: F64, index: np.typing.NDArray[np.int64], first: int, count: int) -> None:
    """448 in one channel of each token: the amax of every block, whatever its rows."""
    x[:, np.arange(len(index)), :, first + index % count] = PIN


def _row_sizes(draws: Draws, shape: tuple[int, ...]) -> F64:
    """A sign times 1, 2, 4 or 8, one for each row."""
    size = draws.integers("binade", shape[:-1], low=0, high=BINADES).astype(np.int64)
    return np.ldexp(draws.signs("row sign", shape[:-1]), size)


def _parts(draws: Draws, problem: Problem) -> tuple[F64, F64]:
    """The two codes whose sum is a pair's dP: (B, pairs, Hkv) each."""
    high = [16.0 * 2**k for k in range(3) for _ in range(1, 16, 2)] + 8 * [0.0]
    low = [m * 2.0**k for k in range(3) for m in range(1, 16, 2)] + list(range(1, 16, 2))
    shape = (problem.batch, problem.keys // 2, problem.kv_heads)
    orders = [draws.order(f"pairs {at}", shape[1]) for at in range(shape[0] * shape[2])]
    order = np.array(orders, np.int64).reshape(shape[0], shape[2], shape[1]).swapaxes(1, 2)
    return np.array(high)[order % len(high)], np.array(low)[order % len(low)]
