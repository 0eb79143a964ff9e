"""Which outputs must be NaN when an input is.

A NaN (or an infinity, whose scale is infinite and whose codes are NaN) makes its whole block NaN;
in K, where keys are centred, every key of the head in that channel through the mean. A NaN number
that a query sees makes its row NaN, and a NaN anywhere in a dS or P tile makes the tile NaN through
its amax. What a hidden NaN does is left open: a dense kernel multiplies it by 0, a sparse one never
reads it.

Source: the scale rules of ``dmverify.spec.scaling``. Not covered: NaN made by overflow, which the
enclosure leaves open; contracts whose scale rule refuses such inputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dmverify.spec.case import F32, Inputs
from dmverify.spec.contracts import Contract
from dmverify.spec.problem import Problem

Flags = npt.NDArray[np.bool_]

PER_TOKEN = ("dk", "dv")


def must_nan(contract: Contract, problem: Problem, inputs: Inputs) -> dict[str, Flags]:
    """The elements that are NaN in every conforming kernel, in the shapes of ``Outputs``."""
    shapes = problem.shapes()
    names = ("o", "lse", "dq", "dk", "dv", "delta")
    flags = {name: np.zeros(shapes[name], dtype=bool) for name in names}
    spreads = contract.operand_rule == "amax" and contract.ds_scale == "tile-amax"
    if not spreads or all(np.isfinite(array).all() for _, array in inputs.items()):
        return flags
    for batch, head in np.ndindex(problem.batch, problem.heads):
        kv_head = head // problem.group
        for name, certain in _head(contract, problem, inputs, batch, head).items():
            if name in ("lse", "delta"):
                flags[name][batch, head] |= certain
            else:
                at = kv_head if name in PER_TOKEN else head
                flags[name][batch, :, at] |= certain[:, None]
    return flags


def _head(
    contract: Contract, problem: Problem, inputs: Inputs, batch: int, head: int
) -> dict[str, Any]:
    """Rows of one query head's outputs, (N,) each."""
    kv_head = head // problem.group
    q, k, v, do = (
        array[batch, :, at]
        for (_, array), at in zip(inputs.items(), (head, kv_head, kv_head, head), strict=True)
    )
    seen: Any = problem.mask()  # numpy types flags | flags as scalar or array
    side = contract.tile
    live = seen.any(1)
    v_nan, do_nan = _block_nan(v, contract.v_block), _block_nan(do, contract.do_block)
    k_nan = _key_nan(contract, k)
    softmax = live & (_block_nan(q, contract.q_block) | (seen & k_nan).any(1))
    o = softmax | (seen & v_nan).any(1)
    delta = live & (o | (np.isnan(do).any(1) if contract.delta == "stale" else do_nan))
    ds = seen & ((delta | do_nan)[:, None] | v_nan | k_nan)
    ds = seen & _blocks(ds, side, side)
    p = seen & _blocks(seen & softmax[:, None], side, side)
    return {
        "o": o,
        "lse": softmax,
        "delta": delta,
        "dq": ds.any(1),
        "dk": ds.any(0),
        "dv": p.any(0) | (seen & do_nan[:, None]).any(0),
    }


def _key_nan(contract: Contract, k: F32) -> Any:
    """Keys that a NaN reaches, (N,): those of its block, or all through the mean."""
    if contract.centre_k == "none":
        return _block_nan(k, contract.k_block)
    return np.full(len(k), not np.isfinite(k).all())


def _block_nan(x: F32, rows: int | None) -> Any:
    """Rows of (N, D) whose block holds a NaN or an infinity, (N,)."""
    special: Any = ~np.isfinite(x).all(1, keepdims=True)
    return _blocks(special, rows or max(len(x), 1), 1)[:, 0]


def _blocks(flags: Any, rows: int, columns: int) -> Any:
    """Whether a tile of (N, M) has a flag, at every element of the tile."""
    if not flags.size:
        return flags
    n, m = flags.shape
    padded = np.pad(flags, ((0, -n % rows), (0, -m % columns)))
    tiles = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
    hit = tiles.any(1, keepdims=True).any(-1, keepdims=True)
    return np.broadcast_to(hit, tiles.shape).reshape(padded.shape)[:n, :m]
