"""dS, its cast, and the transposes that the gradients need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.altered import (
    cast_toward_zero,
    multiply_then_add,
    with_operations,
)
from dmverify.lab.mutants.emulator.mutation import Call, Mutation
from dmverify.lab.mutants.emulator.shared import with_array
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.num import Num, where
from dmverify.spec.attention.operands import BlockScaled
from dmverify.spec.formats import E4M3
from dmverify.spec.namespace import Array

TILE = 64
LEVEL = 256.0  # |dP u| <= 1 is brought to E4M3's normal numbers


def _too_high(base: Arithmetic, x: Array, *, limit: int) -> Array:
    return base.max_shift_to_448(x, limit=limit) + np.int32(2)


def _scale_before(call: Call) -> Any:
    ds = call["ds"]
    before = with_array(ds.scale, lambda x: np.roll(x, 1, axis=1))
    return call.result(ds=BlockScaled(ds.codes, before))


def _diagonal_without_delta(call: Call) -> Num:
    due, bare = call.result(), call.result(delta=call["delta"] * 0.0)
    i, w = np.arange(due.shape[0])[:, None, None], np.arange(due.shape[1])[None, :, None]
    return where(i // TILE == w, bare, due)


def _cast_first(call: Call) -> Any:
    row, u = call["row"], call["u"]
    scaled = row.acc * (row.scale * u) * LEVEL
    rounded = with_array(scaled, lambda x: E4M3.round(x, saturate=True) / np.float32(LEVEL))
    return call.result(row=replace(row, acc=rounded, scale=1.0 / u))


def _carry_subtracted(base: Arithmetic, t: Array, q: Array) -> Array:
    return -base.carry(t, q)


def _rows_exchanged(call: Call) -> Any:
    ds = call["ds"]
    return call.result(ds=BlockScaled(ds.codes[_exchange(ds.codes, 8)], ds.scale))


def _keys_exchanged(call: Call) -> Any:
    head = call["head"]
    k = BlockScaled(head.k.codes[_exchange(head.k.codes, 1)], head.k.scale)
    return call.result(head=replace(head, k=k))


def _pairs_exchanged(call: Call) -> BlockScaled:
    turned = call.result()
    return BlockScaled(turned.codes[..., np.arange(TILE) ^ 2], turned.scale)


def _last_query_window(call: Call) -> BlockScaled:
    turned = call.result()
    codes = turned.codes.array.copy()
    codes[:, (call.case.problem.queries - 1) // TILE] = 0
    return BlockScaled(Num(codes, turned.codes.a), turned.scale)


def _exchange(rows: Num, distance: int) -> Array:
    """Rows n and n ^ distance trade places."""
    return np.arange(len(rows)) ^ distance


MUTATIONS = {
    "ds-tile-scale-saturates": Mutation(
        {"windows.by_exponent": with_operations(max_shift_to_448=_too_high)}
    ),
    "neighbour-tile-scale": Mutation({"windows.query_gradient": _scale_before}),
    "ds-diagonal-without-delta": Mutation({"casts.centred": _diagonal_without_delta}),
    "ds-cast-before-delta": Mutation({"casts.centred": _cast_first}),
    "ds-toward-zero": Mutation({"casts.cast_ds": with_operations(cast=cast_toward_zero)}),
    "ds-rounded-twice": Mutation({"casts.centred": with_operations(fma=multiply_then_add)}),
    "zero-sum-as-nearest": Mutation(contract={"ds_cast": "nearest"}),
    "zero-sum-carry-sign": Mutation({"casts.zero_sum": with_operations(carry=_carry_subtracted)}),
    "fragments-swapped": Mutation({"windows.query_gradient": _rows_exchanged}),
    "transpose-byte-pairs": Mutation({"window_products.transpose": _pairs_exchanged}),
    "k-transpose-permutation": Mutation({"windows.query_gradient": _keys_exchanged}),
    "last-window-lost": Mutation({"window_products.transpose": _last_query_window}),
}
"""By the mutant's id."""
