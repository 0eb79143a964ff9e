"""Faults of what a maximum is taken over: one row, key, channel or term is left out.

``MAXIMA`` gives a plant for any position, so that a test can leave out each; the table has the
last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from dmverify.lab.mutants import cases as on
from dmverify.lab.mutants.altered import Operation, with_operations
from dmverify.lab.mutants.fault import Fault, Plant, Step
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.operands import Head, Operand
from dmverify.spec.attention.softmax import Scores
from dmverify.spec.case import Case
from dmverify.spec.contracts import Contract
from dmverify.spec.formats import E4M3
from dmverify.spec.namespace import Array
from dmverify.spec.scaling import token_mean

TILE = 64
TOP = np.float32(448)


def _amax(name: str, axis: int) -> Callable[[int], Plant]:
    """The amax of an operand's blocks (axis 2) or of its channels (axis 3) without a position."""

    def plant(position: int) -> Plant:
        def step(
            original: Step, case: Case, contract: Contract, which: str, x: Array, kv_heads: int
        ) -> tuple[Array, Array]:
            codes, scale = original(contract, which, x, kv_heads)
            if which != name:
                return codes, scale
            block = getattr(contract, f"{name}_block")
            left = _less(x, axis, position, block)
            _, scale = original(contract, which, left, kv_heads)
            codes = codes.copy()
            codes[:, :, : x.shape[2]] = _codes(x, left, block)
            return codes, scale

        return Plant({"operands._quantised": step})

    return plant


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


def _window(key: int) -> Plant:
    """Each window's maximum without one of its keys."""

    def step(original: Step, case: Case, a: Arithmetic, contract: Contract, s: Scores) -> Array:
        seen = s.seen.copy()
        seen[:, :, key] = False
        return original(a, contract, replace(s, seen=seen))

    return Plant({"forward.references": step})


def _maximum(axis: int) -> Callable[[int], Plant]:
    """The largest P of a tile without one of its 64 keys (axis 2) or of its 64 rows (axis 1)."""

    def plant(position: int) -> Plant:
        def largest(base: Arithmetic, x: Array, over: int) -> Array:
            if (x.ndim, over) == (3, axis) and x.shape[axis] == TILE:
                x = np.delete(x, position, axis)
            return base.max(x, over)

        return _in_casts(largest)

    return plant


def _in_casts(largest: Operation) -> Plant:
    return Plant({"backward.cast_tiles": with_operations(max=largest)})


def _norm(name: str) -> Callable[[int], Plant]:
    """The largest norm of dO's or V's rows in the binade of dS without one row of the tile."""

    def plant(row: int) -> Plant:
        def change(head: Head, *levels: Array) -> tuple[Any, ...]:
            operand: Operand = getattr(head, name)
            codes = operand.codes.copy()
            codes[row::TILE] = 0
            changed: Any = {name: Operand(codes, operand.scale)}
            return replace(head, **changed), *levels

        return _binade(change)

    return plant


def _level(row: int) -> Plant:
    """|shift| + |delta| in the binade of dS without one row of the tile."""

    def change(head: Head, *levels: Array) -> tuple[Any, ...]:
        left = [x.copy() for x in levels]
        for x in left:
            x[row % max(len(x), 1) :: TILE] = 0
        return head, *left

    return _binade(change)


def _term(at: int) -> Plant:
    """The binade of dS without the shift (0) or without delta (1)."""

    def change(head: Head, *levels: Array) -> tuple[Any, ...]:
        return head, *(x * (n != at) for n, x in enumerate(levels))

    return _binade(change)


def _binade(change: Callable[..., tuple[Any, ...]]) -> Plant:
    def step(
        original: Step, case: Case, a: Arithmetic, contract: Contract, head: Head, *levels: Array
    ) -> Array:
        return original(a, contract, *change(head, *levels))

    return Plant({"casts.gradient_binade": step})


def _mean(token: int) -> Plant:
    """The mean of K without one token."""

    def mean(k: Array, rule: str) -> Array:
        left = k.copy()
        left[..., token, :] = 0
        return token_mean(left, rule)

    def as_mean(original: Step, case: Case, k: Array, rule: str) -> Array:
        return mean(k, rule)

    def centred(original: Step, case: Case, k: Array, rule: str) -> Array:
        return k - mean(k, rule)

    return Plant({"operands.token_mean": as_mean, "operands.centre": centred})


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
"""By name, the plant that leaves one position out."""

_LAST = (  # group, what it is taken over, check, case, position
    *(
        (f"amax-{n}-row", "scale", f"the amax of {w}", c, on.LAST_ROW, last)
        for n, w, c, last in (
            ("q", "Q", "lse", 127),
            ("k", "K", "lse", 63),
            ("v", "V", "o", 63),
            ("do", "dO", "dv", 127),
        )
    ),
    ("window-maximum-key", "row maximum", "a window's maximum", "o", on.LAST_ROW, 63),
    ("p-maximum-key", "P", "the tile's largest P", "dv", on.LAST_ROW, 63),
    ("p-maximum-row", "P", "the tile's largest P", "dv", on.LAST_ROW, 63),
    ("do-norm-row", "dS", "the largest norm of dO's rows", "dq", on.LAST_ROW, 63),
    ("v-norm-row", "dS", "the largest norm of V's rows", "dq", on.LAST_ROW, 63),
    ("level-row", "dS", "the largest |shift| + |delta|", "dq", on.LAST_LEVEL, 63),
    ("key-mean-token", "scale", "the mean of K", "lse", on.LAST_ROW, -1),
)  # fmt: skip

ROWS = (
    *(
        Fault(
            f"{name}-left-out",
            group,
            f"{what} is taken without the last {name.rpartition('-')[2]}",
            check,
            MAXIMA[name](position),
            (case,),
        )
        for name, group, what, check, case, position in _LAST
    ),
    *(
        Fault(
            f"{word}-left-out",
            "dS",
            f"the binade of dS is chosen without {word}",
            "dq",
            _term(at),
            (case,),
            contract,
        )
        for at, word, case, contract in (
            (0, "shift", on.LAST_LEVEL, "bundled:delta=shifted"),
            (1, "delta", on.LAST_DELTA, "bundled:delta=shifted"),
        )
    ),
)
"""Faults of this part."""
