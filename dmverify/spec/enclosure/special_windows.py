"""Which outputs are NaN when an input is, under a contract with windows.

Here nothing is left open: a tile of queries x keys is either visited as a whole or not read at all
(``window_products.visited_tiles``), so NaN follows from the blocks alone, and must and may are one.

| in | becomes NaN | so |
|---|---|---|
| q | the codes of its 128 queries | their live rows |
| k | the codes of its block; all of the head where a mean is taken off | rows that see one of |
| | | these keys; dQ of every tile that visits one |
| v | the codes of its 64 keys | every row of a tile that visits them |
| dO | the codes of its 128 queries | their rows of the backward |

Within a visited tile a hidden score has e = 0, and what it multiplies decides: 0 x NaN is NaN in
every product of a tile. What forgets it: the zero-sum cast, which gives hidden keys code 0, and a
delta that is divided by the sum of P, which is 0 in dead rows. Under the shifted delta a dead row
takes dP at key 0, visited or not.

Source: the steps of ``dmverify.spec.attention``. Not covered: NaN made by overflow, and under the
stale delta an infinity in dO, whose product with O may be NaN or infinite; the enclosure leaves
both open.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dmverify.spec.attention.choices import choices_of
from dmverify.spec.attention.operand_casts import operand_casts
from dmverify.spec.case import F32
from dmverify.spec.contracts import Contract
from dmverify.spec.problem import Problem


def windowed_nan(
    contract: Contract, problem: Problem, heads: tuple[F32, F32, F32, F32]
) -> dict[str, Any]:
    """The rows of one query head's outputs that are NaN, (N,) each, by name.

    Args:
        contract: A contract with windows.
        problem: Sizes and mask.
        heads: q, k, v and dO of the head, (N, D) each.
    """
    seen: Any = problem.mask()  # numpy types flags | flags as scalar or array
    tile = visited_tiles(contract, seen)
    live, entered = seen.any(1), tile.any(1)
    q_nan, k_nan, v_nan, do_nan = operands_nan(contract, heads)
    softmax = live & (q_nan | (seen & k_nan).any(1))
    values = (tile & v_nan).any(1)
    o = softmax | values
    gradient = do_nan | values
    mode = contract.delta_mode
    if mode.from_output:
        delta = o | (np.isnan(heads[-1]).any(1) if mode.reads_input else do_nan)
    else:
        delta = live & (softmax | gradient) if mode.quotient else softmax | (entered & gradient)
    if mode.shifts:
        delta = delta | do_nan | (~live & v_nan[:1].any())
    ds = tile & ((softmax | delta | do_nan)[:, None] | v_nan)
    if contract.ds_cast == "zero-sum":
        ds = ds & seen
    return {
        "o": o,
        "lse": softmax,
        "delta": delta,
        "dq": (ds | (tile & k_nan)).any(1),
        "dk": (ds | (tile & q_nan[:, None])).any(0),
        "dv": (tile & (softmax | do_nan)[:, None]).any(0),
    }


def visited_tiles(contract: Contract, seen: Any) -> Any:
    """Every (query, key) whose tile is visited, (Nq, Nk)."""
    side = contract.schedule.step(len(seen))
    return blocks(seen, side, side)


def operands_nan(contract: Contract, heads: tuple[F32, F32, F32, F32]) -> tuple[Any, ...]:
    """The rows of q, k, v and dO whose codes are NaN, (N,) each: of their blocks.

    Through the mean that is taken off keys, a NaN or an infinity reaches all of them.
    """
    casts = operand_casts(contract).values()
    q, k, v, do = (block_nan(x, one.rows) for x, one in zip(heads, casts, strict=True))
    if choices_of(contract).centred:
        k = np.full(len(k), k.any())
    return q, k, v, do


def block_nan(x: F32, rows: int | None) -> Any:
    """Rows of (N, D) whose block holds a NaN or an infinity, (N,)."""
    special: Any = ~np.isfinite(x).all(1, keepdims=True)
    return blocks(special, rows or max(len(x), 1), 1)[:, 0]


def blocks(flags: Any, rows: int, columns: int) -> Any:
    """Whether a tile of (N, M) has a flag, at every element of the tile."""
    if not flags.size:
        return flags
    n, m = flags.shape
    padded = np.pad(flags, ((0, -n % rows), (0, -m % columns)))
    tiles = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
    hit = tiles.any(1, keepdims=True).any(-1, keepdims=True)
    return np.broadcast_to(hit, tiles.shape).reshape(padded.shape)[:n, :m]
