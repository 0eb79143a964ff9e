"""Faults of dS, its cast, and the transposes that the gradients need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.altered import (
    cast_toward_zero,
    multiply_then_add,
    with_operations,
)
from dmverify.lab.mutants.emulator.mutation import Mutation, Step
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.num import Num
from dmverify.spec.attention.operands import BlockScaled, Head
from dmverify.spec.attention.state import Row
from dmverify.spec.case import Case
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import E4M3
from dmverify.spec.namespace import Array

TILE = 64
LEVEL = 256.0  # |dP u| <= 1 is brought to E4M3's normal numbers
ZERO_SUM = "bundled:ds_cast=zero-sum"


def _too_high(base: Arithmetic, x: Array) -> Array:
    return base.fit(x) + np.int32(2)


def _scale_before(original: Step, case: Case, order: Any, head: Head, ds: BlockScaled) -> Num:
    before = Num(np.roll(ds.scale.array, 1, axis=1), ds.scale.a)
    found: Num = original(order, head, BlockScaled(ds.codes, before))
    return found


def _diagonal_without_delta(
    original: Step, case: Case, contract: Contract, row: Row, shift: Num, delta: Num, u: Num
) -> Num:
    due, bare = (original(contract, row, shift, each, u) for each in (delta, delta * 0.0))
    i, w = np.arange(due.shape[0])[:, None, None], np.arange(due.shape[1])[None, :, None]
    return Num(np.where(i // TILE == w, bare.array, due.array), due.a)


def _cast_first(
    original: Step, case: Case, contract: Contract, row: Row, shift: Num, delta: Num, u: Num
) -> Num:
    scaled = row.acc * (row.scale * u) * LEVEL
    rounded = Num(E4M3.round(scaled.array, saturate=True) / np.float32(LEVEL), u.a)
    found: Num = original(contract, replace(row, acc=rounded, scale=1.0 / u), shift, delta, u)
    return found


def _carry_subtracted(base: Arithmetic, t: Array, q: Array) -> Array:
    return -base.carry(t, q)


def _rows_exchanged(original: Step, case: Case, order: Any, head: Head, ds: BlockScaled) -> Num:
    exchanged = BlockScaled(ds.codes[_exchange(ds.codes, 8)], ds.scale)
    found: Num = original(order, head, exchanged)
    return found


def _keys_exchanged(original: Step, case: Case, order: Any, head: Head, ds: BlockScaled) -> Num:
    k = BlockScaled(head.k.codes[_exchange(head.k.codes, 1)], head.k.scale)
    found: Num = original(order, replace(head, k=k), ds)
    return found


def _pairs_exchanged(original: Step, case: Case, *args: Any) -> BlockScaled:
    turned: BlockScaled = original(*args)
    return BlockScaled(turned.codes[..., np.arange(TILE) ^ 2], turned.scale)


def _last_query_window(original: Step, case: Case, *args: Any) -> BlockScaled:
    turned: BlockScaled = original(*args)
    codes = turned.codes.array.copy()
    codes[:, (case.problem.queries - 1) // TILE] = 0
    return BlockScaled(Num(codes, turned.codes.a), turned.scale)


def _exchange(rows: Num, distance: int) -> Array:
    """Rows n and n ^ distance trade places."""
    return np.arange(len(rows)) ^ distance


MUTATIONS = {
    "ds-tile-scale-saturates": Mutation({"windows.by_exponent": with_operations(fit=_too_high)}),
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
