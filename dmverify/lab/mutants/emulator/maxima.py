"""What a maximum is taken over: one row, key, channel or term is left out.

``MAXIMA`` gives a mutation for any position, so that a test can leave out each; the table has the
last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from dmverify.lab.mutants.emulator.altered import Operation, with_operations
from dmverify.lab.mutants.emulator.mutation import Call, Mutation
from dmverify.lab.mutants.emulator.shared import with_array
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.num import Num
from dmverify.spec.attention.operands import BlockScaled
from dmverify.spec.formats import E4M3
from dmverify.spec.namespace import Array
from dmverify.spec.scaling import token_mean

TILE = 64
TOP = np.float32(448)


def _amax(name: str, axis: int) -> Callable[[int], Mutation]:
    """The amax of an operand's blocks (axis 2) or of its channels (axis 3) without a position."""

    def mutation(position: int) -> Mutation:
        def step(call: Call) -> tuple[Array, Array]:
            codes, scale = call.result()
            if call["operand"].name != name:
                return codes, scale
            x, block = call["x"], call["operand"].rows
            left = _less(x, axis, position, block)
            _, scale = call.result(x=left)
            codes = codes.copy()
            codes[:, :, : x.shape[2]] = _codes(x, left, block)
            return codes, scale

        return Mutation({"operand_casts._quantised": step})

    return mutation


def _codes(x: Array, left: Array, rows: int) -> Array:
    """x in blocks of rows, with the amax of what is left."""
    made = np.empty_like(x)
    for start in range(0, x.shape[2], rows):
        block = slice(start, start + rows)
        amax = np.abs(left[:, :, block]).max((2, 3), keepdims=True)
        factor = TOP / np.where(amax == 0, TOP, amax)
        made[:, :, block] = E4M3.round(x[:, :, block] * factor, saturate=True)
    return made


def _less(x: Array, axis: int, position: int, block: int) -> Array:
    """0 at one position of every block of rows, or in one channel."""
    left = x.copy()
    if axis == 2:
        left[:, :, position::block] = 0
    else:
        left[..., position] = 0
    return left


def _window(key: int) -> Mutation:
    """Each window's maximum without one of its keys."""

    def step(call: Call) -> Any:
        seen = call["s"].seen.copy()
        seen[:, :, key] = False
        return call.result(s=replace(call["s"], seen=seen))

    return Mutation({"windows.references": step})


def _maximum(axis: int) -> Callable[[int], Mutation]:
    """The largest P of a tile without one of its 64 keys (axis 2) or of its 64 rows (axis 1)."""

    def mutation(position: int) -> Mutation:
        def largest(base: Arithmetic, x: Array, over: int) -> Array:
            if (x.ndim, over) == (3, axis) and x.shape[axis] == TILE:
                x = np.delete(x, position, axis)
            return base.max(x, over)

        return _in_casts(largest)

    return mutation


def _in_casts(largest: Operation) -> Mutation:
    return Mutation({"windows.by_exponent": with_operations(max=largest)})


def _norm(name: str) -> Callable[[int], Mutation]:
    """The largest norm of dO's or V's rows in the binade of dS without one row of the tile."""

    def mutation(row: int) -> Mutation:
        def step(call: Call) -> Any:
            operand: BlockScaled = getattr(call["head"], name)
            codes = operand.codes.array.copy()
            codes[row::TILE] = 0
            changed: Any = {name: BlockScaled(Num(codes, operand.codes.a), operand.scale)}
            return call.result(head=replace(call["head"], **changed))

        return Mutation({"casts.gradient_level": step})

    return mutation


def _level(row: int) -> Mutation:
    """|shift| + |delta| in the binade of dS without one row of the tile."""

    def left(x: Array) -> Array:
        kept = x.copy()
        kept[row % max(len(x), 1) :: TILE] = 0
        return kept

    def step(call: Call) -> Any:
        return call.result(**{name: with_array(call[name], left) for name in ("shift", "delta")})

    return Mutation({"casts.gradient_level": step})


def _term(name: str) -> Mutation:
    """The binade of dS without the shift or without delta."""
    return Mutation({"casts.gradient_level": lambda call: call.result(**{name: call[name] * 0.0})})


def _mean(token: int) -> Mutation:
    """The mean of K without one token."""

    def mean(k: Array, rule: str) -> Array:
        left = k.copy()
        left[..., token, :] = 0
        return token_mean(left, rule)

    return Mutation(
        {
            "operands.token_mean": lambda call: mean(call["k"], call["rule"]),
            "operands.centre": lambda call: call["k"] - mean(call["k"], call["rule"]),
        }
    )


MAXIMA = MappingProxyType(
    {
        **{f"amax-{n}-row": _amax(n, 2) for n in ("q", "k", "v", "do")},
        **{f"amax-{n}-channel": _amax(n, 3) for n in ("q", "k", "v", "do")},
        "window-maximum-key": _window,
        "p-maximum-key": _maximum(2),
        "p-maximum-row": _maximum(1),
        "do-norm-row": _norm("do"),
        "v-norm-row": _norm("v"),
        "level-row": _level,
        "key-mean-token": _mean,
    }
)
"""By name, the mutation that leaves one position out."""

_LAST = {
    **dict.fromkeys(("amax-q-row", "amax-do-row"), 2 * TILE - 1),
    **dict.fromkeys(("amax-k-row", "amax-v-row"), TILE - 1),
    **dict.fromkeys(("window-maximum-key", "p-maximum-key", "p-maximum-row"), TILE - 1),
    **dict.fromkeys(("do-norm-row", "v-norm-row", "level-row"), TILE - 1),
    "key-mean-token": -1,
}

MUTATIONS = {
    **{f"{name}-left-out": MAXIMA[name](position) for name, position in _LAST.items()},
    "shift-left-out": _term("shift"),
    "delta-left-out": _term("delta"),
}
"""By the mutant's id."""
