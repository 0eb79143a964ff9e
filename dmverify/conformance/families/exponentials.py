"""Exponentials that little hides: logits of one product each, rows that differ by one argument.

Elsewhere the float32 slack of dots and sums is wider than the error of a poor exponential. Here one
half of the keys has the logit x / 2 and the other -x / 2, each a single product of two codes, so
that its sum has no order and nothing is lost in it. x differs from row to row, over all positive
codes of Q from 2^-6 to 448, and over two sizes of K: from 0.0027 to 98, the fractions of
x log2 e all over [0, 1).

dP is 0 but at one key of the lower half, so delta is that key's P: it shows the relative error of
exp(-x), however small exp(-x) is. LSE shows it while exp(-x) is about 1.

| variant | keys | its slack |
|---|---|---|
| tile | 64: a full tile, for which a kernel may have a path of its own | the sum of 64 |
| pair | 2 | the sum of 2 |
"""

from __future__ import annotations

import numpy as np

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.family import Variant
from dmverify.conformance.families.tensors import as_inputs
from dmverify.spec.case import Inputs
from dmverify.spec.formats import E4M3
from dmverify.spec.problem import Problem

PIN = 448.0  # the amax of every block: its scale is 1
LOGIT, FIRST, LAST = 0, 1, 2  # channels of the logits, and of dP at the first or the last key
PIN_CHANNEL = {"k": 3, "v": 3}
KEY_SIZES = (448.0, 352.0)  # 7 and 11 times 32: by head, in turns
SMALLEST_QUERY = 2.0**-6

EXPONENTIALS = {
    "tile": Variant({}, {"keys": 64, "queries": 128}),
    "pair": Variant({}, {"keys": 2, "queries": 128}),
}


def exponentials(draws: Draws, problem: Problem) -> Inputs:
    """One argument a row; the order of the arguments and their signs are drawn."""
    shapes = problem.shapes()
    q, k, v, do = (np.zeros(shapes[name]) for name in ("q", "k", "v", "do"))
    half = problem.keys // 2
    sizes = np.resize(KEY_SIZES, problem.kv_heads)
    k[:, :half, :, LOGIT], k[:, half : 2 * half, :, LOGIT] = sizes, -sizes
    for x, pinned in ((k, PIN_CHANNEL["k"]), (v, PIN_CHANNEL["v"])):
        x[:, :half, :, pinned], x[:, half : 2 * half, :, pinned] = PIN, -PIN
    k[:, :, sizes == PIN, PIN_CHANNEL["k"]] = 0.0  # its logits pin it: one nonzero number a key
    v[:, :1, :, FIRST], v[:, -1:, :, LAST] = 1.0, 1.0
    queries = _queries(draws, problem)
    q[..., LOGIT] = queries
    do[..., FIRST], do[..., LAST] = queries < 0, queries > 0
    return as_inputs({"q": q, "k": k, "v": v, "do": do})


def _queries(draws: Draws, problem: Problem) -> np.typing.NDArray[np.float64]:
    """Codes of either sign, (B, Nq, H): all of them in turns, in an order of each head's own."""
    batch, rows, heads, _ = problem.shapes()["q"]
    codes = E4M3.decode(np.arange(E4M3.max_code + 1, dtype=np.uint8)).astype(np.float64)
    codes = np.resize(codes[codes >= SMALLEST_QUERY][::-1], rows)  # the largest is never left out
    orders = [draws.order(f"queries {at}", rows) for at in range(batch * heads)]
    drawn = np.array([codes[order] for order in orders]).reshape(batch, heads, rows)
    return drawn.swapaxes(1, 2) * draws.signs("signs", (batch, rows, heads))
