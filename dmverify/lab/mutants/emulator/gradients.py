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
from dmverify.spec.attention.delta import Row
from dmverify.spec.attention.operands import Head, Operand
from dmverify.spec.attention.products import Coded
from dmverify.spec.case import Case
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import E4M3
from dmverify.spec.namespace import Array

TILE = 64
LEVEL = np.float32(256)  # |dP u| <= 1 is brought to E4M3's normal numbers
ZERO_SUM = "bundled:ds_cast=zero-sum"


def _too_high(base: Arithmetic, x: Array) -> Array:
    return base.fit(x) + np.int32(2)


def _scale_before(
    original: Step, case: Case, a: Arithmetic, contract: Contract, head: Head, ds: Coded, *rest: Any
) -> Array:
    return original(a, contract, head, Coded(ds.codes, np.roll(ds.scale, 1, axis=1)), *rest)


def _diagonal_without_delta(
    original: Step, case: Case, a: Arithmetic, contract: Contract, row: Row, *args: Any
) -> Array:
    shift, delta, u = args
    due = original(a, contract, row, shift, delta, u)
    bare = original(a, contract, row, shift, np.zeros_like(delta), u)
    i, w = np.arange(due.shape[0])[:, None, None], np.arange(due.shape[1])[None, :, None]
    return np.where(i // TILE == w, bare, due)


def _cast_first(
    original: Step, case: Case, a: Arithmetic, contract: Contract, row: Row, *args: Any
) -> Array:
    u = args[-1]
    scaled = a.mul(a.mul(row.raw, a.mul(row.factor, u)), LEVEL)
    rounded = E4M3.round(scaled, saturate=True) / LEVEL
    return original(a, contract, replace(row, raw=rounded, factor=np.float32(1) / u), *args)


def _carry_subtracted(base: Arithmetic, t: Array, q: Array) -> Array:
    return -base.carry(t, q)


def _rows_exchanged(
    original: Step, case: Case, a: Arithmetic, contract: Contract, head: Head, ds: Coded, *rest: Any
) -> Array:
    return original(a, contract, head, Coded(ds.codes[_exchange(ds.codes, 8)], ds.scale), *rest)


def _keys_exchanged(
    original: Step, case: Case, a: Arithmetic, contract: Contract, head: Head, ds: Coded, *rest: Any
) -> Array:
    k = Operand(head.k.codes[_exchange(head.k.codes, 1)], head.k.scale)
    return original(a, contract, replace(head, k=k), ds, *rest)


def _pairs_exchanged(original: Step, case: Case, *args: Any) -> Coded:
    turned: Coded = original(*args)
    return Coded(turned.codes[..., np.arange(TILE) ^ 2], turned.scale)


def _last_query_window(original: Step, case: Case, *args: Any) -> Coded:
    turned: Coded = original(*args)
    codes = turned.codes.copy()
    codes[:, (case.problem.queries - 1) // TILE] = 0
    return Coded(codes, turned.scale)


def _exchange(rows: Array, distance: int) -> Array:
    """Rows n and n ^ distance trade places."""
    return np.arange(len(rows)) ^ distance


MUTATIONS = {
    "ds-tile-scale-saturates": Mutation({"backward.cast_tiles": with_operations(fit=_too_high)}),
    "neighbour-tile-scale": Mutation({"backward._query_gradient": _scale_before}),
    "ds-diagonal-without-delta": Mutation({"casts._centred": _diagonal_without_delta}),
    "ds-cast-before-delta": Mutation({"casts._centred": _cast_first}),
    "ds-toward-zero": Mutation({"casts._cast_ds": with_operations(cast=cast_toward_zero)}),
    "ds-rounded-twice": Mutation({"casts._centred": with_operations(fma=multiply_then_add)}),
    "zero-sum-as-nearest": Mutation(contract={"ds_cast": "nearest"}),
    "zero-sum-carry-sign": Mutation({"casts.zero_sum": with_operations(carry=_carry_subtracted)}),
    "fragments-swapped": Mutation({"backward._query_gradient": _rows_exchanged}),
    "transpose-byte-pairs": Mutation({"backward.transpose": _pairs_exchanged}),
    "k-transpose-permutation": Mutation({"backward._query_gradient": _keys_exchanged}),
    "last-window-lost": Mutation({"backward.transpose": _last_query_window}),
}
"""By the mutant's id."""
