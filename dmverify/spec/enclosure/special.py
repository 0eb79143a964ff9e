"""Which outputs must be NaN when an input is.

A NaN (or an infinity, whose scale is infinite and whose codes are NaN) makes its whole block NaN;
in K, where keys are centred, every key of the head in that channel through the mean.

    with windows    ``special_windows``: it is stated which tiles are read, so nothing is open
    without         a NaN number that a query sees makes its row NaN, and a NaN anywhere in a dS or
                    P tile makes the tile NaN through its amax. What a hidden NaN does is left
                    open: a dense kernel multiplies it by 0, a sparse one never reads it.

Source: the scale rules of ``dmverify.spec.scaling``. Not covered: NaN made by overflow, which the
enclosure leaves open; contracts whose scale rule refuses such inputs, and other formats than E4M3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dmverify.spec.case import F32, Inputs
from dmverify.spec.contracts import Contract, Rows, Windows
from dmverify.spec.enclosure.special_windows import block_nan, blocks, windowed_nan
from dmverify.spec.problem import Problem

Flags = npt.NDArray[np.bool_]

PER_TOKEN = ("dk", "dv")


def must_nan(contract: Contract, problem: Problem, inputs: Inputs) -> dict[str, Flags]:
    """The elements that are NaN in every conforming kernel, in the shapes of ``Outputs``."""
    shapes = problem.shapes()
    names = ("o", "lse", "dq", "dk", "dv", "delta")
    windowed = isinstance(contract.schedule, Windows)
    rows = isinstance(contract.schedule, Rows)
    spreads = rows and contract.in_e4m3 and contract.operand_rule == "amax"
    if not (spreads or windowed) or all(np.isfinite(array).all() for _, array in inputs.items()):
        return {name: np.broadcast_to(np.False_, shapes[name]) for name in names}
    flags = {name: np.zeros(shapes[name], dtype=bool) for name in names}
    for batch, head in np.ndindex(problem.batch, problem.heads):
        kv_head = head // problem.group
        q, do = inputs.q[batch, :, head], inputs.do[batch, :, head]
        k, v = inputs.k[batch, :, kv_head], inputs.v[batch, :, kv_head]
        of_head = windowed_nan if windowed else _dense
        for name, certain in of_head(contract, problem, (q, k, v, do)).items():
            if name in ("lse", "delta"):
                flags[name][batch, head] |= certain
            else:
                at = kv_head if name in PER_TOKEN else head
                flags[name][batch, :, at] |= certain[:, None]
    return flags


def _dense(
    contract: Contract, problem: Problem, heads: tuple[F32, F32, F32, F32]
) -> dict[str, Any]:
    """Rows of one query head's outputs, (N,) each, from its q, k, v and dO, (N, D) each."""
    q, k, v, do = heads
    seen: Any = problem.mask()  # numpy types flags | flags as scalar or array
    assert isinstance(contract.schedule, Rows)
    side = contract.schedule.tile
    live = seen.any(1)
    v_nan, do_nan = block_nan(v, contract.v_block), block_nan(do, contract.do_block)
    k_nan = _key_nan(contract, k)
    softmax = live & (block_nan(q, contract.q_block) | (seen & k_nan).any(1))
    o = softmax | (seen & v_nan).any(1)
    read_nan = np.isnan(do).any(1) if contract.delta_mode.reads_input else do_nan
    delta = live & (o | read_nan)
    ds = seen & ((delta | do_nan)[:, None] | v_nan | k_nan)
    ds = seen & blocks(ds, side, side)
    p = seen & blocks(seen & softmax[:, None], side, side)
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
        return block_nan(k, contract.k_block)
    return np.full(len(k), not np.isfinite(k).all())
