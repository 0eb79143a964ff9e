"""Which outputs must be NaN when an input is.

A NaN (or an infinity, whose scale is infinite and whose codes are NaN) makes its whole block NaN;
in K, through the mean, every key of the head in that channel. A NaN number that a query sees makes
its row NaN, and a NaN anywhere in a dS or P tile makes the tile NaN through its amax. What a hidden
NaN does is left open: a dense kernel multiplies it by 0, a sparse one never reads it.

Source: the scale rules of ``dmverify.spec.scaling``. Not covered: NaN made by overflow, which the
enclosure leaves open.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dmverify.spec.case import F32
from dmverify.spec.contracts import Contract
from dmverify.spec.enclosure.casts import over_tiles
from dmverify.spec.enclosure.forward import HeadOperands

Flags = npt.NDArray[np.bool_]


def certain_nan(contract: Contract, head: HeadOperands, nan: dict[str, Flags]) -> dict[str, Any]:
    """The elements of one head's outputs that are NaN in every conforming kernel.

    Args:
        contract: Gives the tile and the delta mode.
        head: For the mask.
        nan: Rows of q, k, v, do with a NaN after the cast, and of do_input before; (N,) each.

    Returns:
        Flags (rows, 1) for o, lse, delta, dq, dk, dv.
    """
    seen: Any = head.seen  # numpy types flags | flags as scalar or array
    side = contract.tile
    live = np.asarray(seen.any(1))
    softmax = live & (nan["q"] | (seen & nan["k"]).any(1))
    o = softmax | (seen & nan["v"]).any(1)
    gradient = nan["do_input"] if contract.delta == "stale" else nan["do"]
    delta = live & (o | gradient)
    ds = seen & ((delta | nan["do"])[:, None] | nan["v"] | nan["k"])
    ds = seen & _blocks(ds, side, side)
    p = seen & _blocks(seen & softmax[:, None], side, side)
    column = {
        "o": o,
        "lse": softmax,
        "delta": delta,
        "dq": ds.any(1),
        "dk": ds.any(0),
        "dv": p.any(0) | (seen & nan["do"][:, None]).any(0),
    }
    return {name: flags[:, None] for name, flags in column.items()}


def block_nan(x: F32, rows: int | None) -> Flags:
    """Rows of (N, D) whose block holds a NaN or an infinity, (N,)."""
    special: Any = ~np.isfinite(x).all(1, keepdims=True)
    return _blocks(special, rows or max(len(x), 1), 1)[:, 0]


def _blocks(flags: Flags, rows: int, columns: int) -> Flags:
    if flags.size == 0:
        return flags
    return np.asarray(over_tiles(flags.astype(np.float64), rows, columns) > 0)
