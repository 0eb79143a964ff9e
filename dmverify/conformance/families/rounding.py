"""Inputs on the decision points of formats: ties, their neighbours, the ends of the range, -0.

Every block's amax is pinned, mostly to 448, so that its scale is exactly 1 under every scale rule
and an element meets the cast as it is. One channel is pinned and is zero in the partner tensor, so
it adds nothing to a dot. Odd keys are the negatives of even ones, so that the mean of k is 0 and
centring changes nothing (the number of keys should be even). Points of other formats (``OTHERS``)
lie below pins of their own, in the tensors that have them; the other tensors are normal.

Other pins A give quotients 448 X / A of two 8-bit integers, which are on a midpoint of E4M3 or at
least a part in 2^13 away from it.

| variant | A | an element X is | tells |
|---|---|---|---|
| quotient-ties | seven of 45 | on a midpoint exactly | 448 / A from the inverse of A / 448 |
| quotient-near-ties | dense in such X | within 2^-12 or 2^-9 of one | a stop at FP16 or BF16 |

In the first the float32 rounding of the scale and of the product decide, and with them whether a
kernel divides, multiplies by 448 / A, or by the inverse of A / 448. In the second a number that is
rounded to FP16 or to BF16 first falls on the midpoint, whose even side is the wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np

from dmverify.conformance.families.blocks import OPERAND_BLOCK, OTHER
from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.elementary import F64
from dmverify.conformance.families.family import Variant
from dmverify.conformance.families.tensors import NAMES, as_inputs
from dmverify.spec.case import Inputs
from dmverify.spec.formats import BF16, E4M3, E5M2, INT8, FloatFormat
from dmverify.spec.problem import Problem

PIN = 448.0
PINNED = {"q": -1, "do": -1, "k": -2, "v": -2}  # q meets k and do meets v on different channels
SMALL_SCALE = {"softmax_scale": 2.0**-12}  # raw dots of such numbers are large
BLOCKWISE = {**SMALL_SCALE, "heads": 4, "kv_heads": 2, "queries": 128, "keys": 128}

# Tops A of blocks, significands of BF16 in [128, 256), in turns. ties: those at which dividing by
# A / 448 (196, 204, 208, 248) or the inverse of A / 448 (138, 152, 166) gives another code than
# 448 / A. near-ties: those with the most X within 2^-12 of a midpoint on the side that a double
# rounding gets wrong.
TOPS = {
    "ties": (196, 138, 204, 152, 208, 166, 248),
    "near-ties": (251, 215, 195, 187, 167, 223),
}
DEPTH = 8  # binades below the top that elements are drawn from


def _values(fmt: FloatFormat = E4M3) -> F64:
    codes = np.arange(fmt.max_code + 1, dtype=np.uint8)
    values: F64 = fmt.decode(codes).astype(np.float64)
    return values


def _ties(fmt: FloatFormat = E4M3) -> F64:
    values = _values(fmt)
    return (values[1:] + values[:-1]) / 2


def _tie_neighbours() -> F64:
    """The BF16 numbers next to every midpoint."""
    codes = BF16.encode(_ties().astype(np.float32)).astype(np.int64)
    around = np.concatenate([codes - 1, codes + 1]).astype(np.uint16)
    neighbours: F64 = BF16.decode(around).astype(np.float64)
    return neighbours


def _top() -> F64:
    return np.array([416.0, 430.0, 432.0, 434.0, 440.0, 446.0, 448.0])


def _beyond() -> F64:
    """What scales of 1 leave beyond the largest number, and below the smallest."""
    unit = E4M3.min_subnormal
    return np.array([1.0, 100.0, 448.0, 464.0, 466.0, 480.0, 9984.0, unit, unit / 2, unit / 4])


def _subnormals(fmt: FloatFormat = E4M3) -> F64:
    unit = fmt.min_subnormal
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

OTHERS: dict[str, tuple[tuple[str, ...], Callable[[], F64], float, int]] = {
    "e5m2-ties": (("do",), partial(_ties, E5M2), E5M2.max_finite, -26),
    "e5m2-subnormals": (("do",), partial(_subnormals, E5M2), E5M2.max_finite, 0),
    "int8-ties": (
        ("q", "k"),
        lambda: np.arange(INT8.largest, dtype=np.float64) + 0.5,
        INT8.max_finite,
        -6,
    ),
    "beyond": (NAMES, _beyond, PIN, 0),
}
"""Which tensors have which points below which pin, times 2^k."""

ROUNDING = {
    "ties": Variant({"points": "ties"}, SMALL_SCALE),
    "tie-neighbours": Variant({"points": "tie-neighbours"}, SMALL_SCALE),
    "top": Variant({"points": "top"}, SMALL_SCALE, ("saturation",)),
    "subnormals": Variant({"points": "subnormals"}, {"softmax_scale": 1.0}, ("underflow",)),
    "signed-zeros": Variant({"points": "signed-zeros"}, {"softmax_scale": 1.0}),
    "all-codes": Variant({"points": "all-codes"}, SMALL_SCALE),
    "quotient-ties": Variant({"quotients": "ties"}, BLOCKWISE),
    "quotient-near-ties": Variant({"quotients": "near-ties"}, BLOCKWISE),
    "e5m2-ties": Variant({"others": "e5m2-ties"}, flags=OTHER),
    "e5m2-subnormals": Variant({"others": "e5m2-subnormals"}, flags=("underflow", *OTHER)),
    "int8-ties": Variant({"others": "int8-ties"}, flags=OTHER),
    "beyond": Variant({"others": "beyond"}, SMALL_SCALE, ("saturation", *OTHER)),
}


def rounding_points(
    draws: Draws, problem: Problem, *, points: str = "", quotients: str = "", others: str = ""
) -> Inputs:
    """Every element drawn from one list of decision points, with random sign."""
    made = {}
    for name, shape in ((name, problem.shapes()[name]) for name in NAMES):
        if quotients:
            x, top = _quotients(draws, name, shape, quotients)
        elif others:
            x, top = _of_format(draws, name, shape, others)
        else:
            x, top = _drawn(draws, name, shape, POINTS[points](), PIN)
        x = x * draws.signs(f"{name} signs", shape)
        for channel in set(PINNED.values()):
            x[..., channel] = top if channel == PINNED[name] else 0.0
        made[name] = x
    made["k"][:, 1::2] = -made["k"][:, : problem.keys // 2 * 2 : 2]
    return as_inputs(made)


def _drawn(
    draws: Draws, name: str, shape: tuple[int, ...], values: F64, pin: float
) -> tuple[F64, F64]:
    """Elements of one list, and the pins."""
    index = draws.integers(name, shape, low=0, high=len(values)).astype(np.int64)
    return values[index], np.full(shape[:-1], pin)


def _of_format(draws: Draws, name: str, shape: tuple[int, ...], others: str) -> tuple[F64, F64]:
    """Points of a row of ``OTHERS``; normal numbers without a pin in the other tensors."""
    tensors, points, largest, exponent = OTHERS[others]
    if name not in tensors:
        return draws.normal(name, shape), np.zeros(shape[:-1])
    return _drawn(draws, name, shape, np.ldexp(points(), exponent), np.ldexp(largest, exponent))


def _quotients(draws: Draws, name: str, shape: tuple[int, ...], kind: str) -> tuple[F64, F64]:
    """Elements below the top of their block, in some binade, and the tops (B, N, H)."""
    tops = TOPS[kind]
    listed = [_significands(top, kind) for top in tops]
    table = np.array([(found * 256)[:256] for found in listed], dtype=np.float64)
    batch, tokens, heads, _ = shape
    b, n, h = np.ogrid[:batch, :tokens, :heads]
    which = (NAMES.index(name) + b + h + heads * (n // OPERAND_BLOCK[name])) % len(tops)
    index = draws.integers(name, shape, low=0, high=table.shape[1]).astype(np.int64)
    below = draws.integers(f"{name} binade", shape, low=1, high=DEPTH + 1)
    return np.ldexp(table[which[..., None], index], -below.astype(np.int64)), np.array(tops)[which]


def _significands(top: int, kind: str) -> list[int]:
    """The X in [128, 256) that are on, or beside, a midpoint at the scale of ``top``."""
    near: dict[bool, list[int]] = {True: [], False: []}
    for x in range(128, 256):
        quotient = Fraction(int(PIN) * x, top)
        quotient /= 2 ** (math.floor(math.log2(quotient)) - 4)  # in [16, 32): odd is a midpoint
        middle = 2 * (quotient // 2) + 1
        off = (quotient - middle) / middle
        even_side = 1 if middle // 2 % 2 else -1  # where a tie goes
        if kind == "ties" and off == 0:
            near[True].append(x)
        if kind == "near-ties" and off * even_side < 0:  # what is right is the other side
            near[abs(off) < Fraction(1, 2**12)] += [x] * (abs(off) < Fraction(1, 2**9))
    return near[True] * max(1, len(near[False])) + near[False]
