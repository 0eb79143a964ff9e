"""Inputs for which attention is known without rounding, or cancels.

integers: q and k hold Walsh functions from two disjoint sets, so every logit is exactly 0 and P is
1 / Nk. v and do hold a sign times one Walsh function of their first D/2 channels, in sizes 7 and 4;
a pin of size 7 in another channel of do makes its scale a power of two. Half of the keys have each
sign (or, in ``one-sided``, +7 and 0), so every dS is plus or minus 7 times a power of two, which
E4M3 holds under a scale of amax / 448 and under a power of two. It needs power-of-two head dims and
key counts and no mask.

cancelling: keys come in equal pairs whose values are a + b and a - b, so that O is the constant a,
and do is orthogonal to it: delta is 0 as the sum of large terms.
"""

from __future__ import annotations

import numpy as np

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.elementary import F64
from dmverify.conformance.families.family import Variant
from dmverify.conformance.families.tensors import as_inputs, gaussian
from dmverify.errors import InputError
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem

PIN = 7.0  # 7 2^k / 448 is a power of two
SIZE = {"v": PIN, "do": 4.0}  # 4 is exact at such a scale, and 4 * 7 D/2 is 7 times a power of two
GRID = 16.0  # b is a multiple of 1/16 below 4, so that a + b and a - b are BF16 numbers

INTEGERS = {
    "balanced": Variant({"one_sided": False}),
    "one-sided": Variant({"one_sided": True}),
    "two-blocks": Variant({"one_sided": False}, {"keys": 128, "queries": 64}),
}
CANCELLING = {
    "offset-0": Variant({"offset": 0.0}),
    "offset-4": Variant({"offset": 4.0}, flags=("offset",)),
    "offset-8": Variant({"offset": 8.0}, flags=("offset",)),
    "causal": Variant({"offset": 4.0}, {"causal": True}, ("offset",)),
}


def integers(draws: Draws, problem: Problem, *, one_sided: bool) -> Inputs:
    """Equal logits and dyadic everything."""
    require_exact_rows(problem)
    shapes, half = problem.shapes(), problem.head_dim // 2
    functions = walsh(problem.head_dim)
    made: dict[str, F64] = {}
    for name, first in (("q", 0), ("k", half)):
        batch, tokens, heads, _ = shapes[name]
        which = draws.integers(name, (batch, tokens, heads), low=first + 1, high=first + half)
        made[name] = PIN * functions[which.astype(np.int64)]
    made["k"][:, 1::2] = -made["k"][
        :, : problem.keys // 2 * 2 : 2
    ]  # the mean over tokens is exactly 0
    small = walsh(half)
    for name, size in SIZE.items():
        made[name] = np.zeros(shapes[name])
        made[name][..., :half] = size * small[1]
    made["do"][..., half] = PIN
    sign = np.where(np.arange(problem.keys) % 2, 0.0 if one_sided else -1.0, 1.0)
    made["v"][..., :half] *= sign[None, :, None, None]
    made["do"][..., :half] *= draws.signs("do signs", (*shapes["do"][:-1], 1))
    return as_inputs(made)


def cancelling(draws: Draws, problem: Problem, *, offset: float) -> Inputs:
    """do orthogonal to an output that is large and known."""
    made = gaussian(draws, problem)
    b = np.clip(np.floor(made["v"] * GRID + 0.5) / GRID, -4.0, 4.0)
    even = problem.keys // 2 * 2
    made["k"][:, 1:even:2] = made["k"][:, :even:2]
    made["v"][:, :even:2] = offset + b[:, :even:2]
    made["v"][:, 1:even:2] = offset - b[:, :even:2]
    made["v"][:, even:] = offset
    made["do"][..., 1::2] = -made["do"][..., ::2]
    return as_inputs(made)


def walsh(order: int) -> F64:
    """The Hadamard matrix of Sylvester, rows mutually orthogonal; row 0 is constant."""
    matrix = np.ones((1, 1))
    while len(matrix) < order:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def require_exact_rows(problem: Problem) -> None:
    """Refuses sizes for which P = 1 / keys is no power of two, or rows see fewer keys.

    Raises:
        InputError: A head dim or key count that is no power of two, or a causal mask.
    """
    for name in ("head_dim", "keys"):
        size = getattr(problem, name)
        if size < 1 or size & (size - 1):
            raise InputError(
                f"{name}={size}",
                rule="this family needs a power of two, so that no quotient rounds",
                fix=f"set {name} to 32, 64, 128 or 256",
            )
    if problem.causal:
        raise InputError(
            "causal=True",
            rule="this family needs every row to see every key, so that P is 1 / keys",
            fix="set causal=0",
        )
