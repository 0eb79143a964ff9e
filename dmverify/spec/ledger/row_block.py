"""The numbers of a stretch of rows of one head, as the ledger's definitions read them.

A ledger is taken head by head and, in a long head, by stretches of rows that end on tile borders,
so that memory stays bounded and a tile of the dS cast is never cut. Rows with a NaN or infinity
have no residual; they are emptied here and reported as undefined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dmverify.errors import InputError
from dmverify.spec.attention.operand_casts import OperandCast, coded, operand_casts
from dmverify.spec.case import F64, Trace
from dmverify.spec.contracts import Contract, Windows
from dmverify.spec.ledger.bounds.constants import EXACT_EXPONENT, LOG2_E, NORM_SLACK
from dmverify.spec.ledger.bounds.derived import require_derived
from dmverify.spec.problem import Problem

ELEMENTS = 1 << 19  # (row, key) pairs of one stretch: about 100 MB of temporaries
STEP = 128  # every tile and operand block divides it

# Whether a field has a number a row and key, row and channel, row and tile, row, or token; or is a
# norm of a head's tokens, which each of its rows has.
PAIR = ("weights", "p", "dp", "ds", "ds_cast", "p_presented", "dp_presented")
CHANNEL = ("q", "do", "o32", "o", "do_input")
TILE = ("p_top", "ds_top")
ROW = ("norm", "shift", "delta", "do_scale")
TOKEN = ("k", "v", "v_forward", "v_scale")
NORM = ("k_norm", "v_norm")


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Rows i = start, start + 1, ... of one head; M rows, N keys, D channels; exact numbers.

    Attributes:
        contract: The numerics.
        problem: Sizes, mask, scale.
        at: (batch, head, first row).
        heads: How many heads, from that one on, have their rows here, one below the other; with
            more than one the tokens, which nobody then reads, are NaN.
        weights, p, dp, ds, ds_cast: See ``Internals``, (M, N).
        p_presented, dp_presented: P' and dP' of the delta pass, (M, N).
        q, do, o32: See ``Internals``, (M, D).
        p_top, ds_top: Largest P and |dS| of the row's tiles, emptied rows included, (M, G).
        o: The stored output, (M, D).
        do_input: dO before quantisation, (M, D).
        norm, shift, delta: See ``Internals``, (M,).
        do_scale: The block scale that the contract gives dO's rows, (M,).
        k, v: See ``Internals``, (N, D).
        v_forward: The dequantised V of the forward, (N, D).
        v_scale: The block scale that the contract gives V's rows, (N,).
        k_norm: Norm of the longest key of the row's head, (M,).
        v_norm: That of the longest V of each tile, (M, G).
        norm_divides: See ``Internals``.
        presented: Whether the delta pass reads other numbers than the dS step.
        defined: False for rows that held a NaN or infinity and were emptied, (M,).
    """

    contract: Contract
    problem: Problem
    at: tuple[int, int, int]
    heads: int
    weights: F64
    p: F64
    dp: F64
    ds: F64
    ds_cast: F64
    p_presented: F64
    dp_presented: F64
    q: F64
    do: F64
    o32: F64
    o: F64
    do_input: F64
    norm: F64
    shift: F64
    delta: F64
    do_scale: F64
    p_top: F64
    ds_top: F64
    k: F64
    v: F64
    v_forward: F64
    v_scale: F64
    k_norm: F64
    v_norm: F64
    norm_divides: bool
    presented: bool
    defined: npt.NDArray[np.bool_]

    @property
    def rows(self) -> int:
        """M."""
        return len(self.p)

    @property
    def do_read(self) -> F64:
        """The dO that the delta pass reads: as it came in, or as dP uses it."""
        return self.do_input if self.contract.delta_mode.reads_input else self.do

    def by_head(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """(M, ...) as (heads, rows of each, ...)."""
        return x.reshape(self.heads, self.rows // self.heads, *x.shape[1:])

    @cached_property
    def one_v(self) -> bool:
        """Whether forward and backward use the same V^."""
        return np.array_equal(self.v, self.v_forward)

    @cached_property
    def seen(self) -> npt.NDArray[np.bool_]:
        """(M, N), True where a key takes part in a row."""
        start, rows = self.at[2], self.rows // self.heads
        return np.tile(self.problem.mask()[start : start + rows], (self.heads, 1))


def row_blocks(
    contract: Contract,
    trace: Trace,
    *,
    v_forward: F64 | None = None,
    presented: tuple[F64, F64] | None = None,
) -> Iterator[RowBlock]:
    """All stretches of a call, by batch, head and row; other words as in ``ledger``.

    Raises:
        InputError: If a tensor has not the shape of the problem.
    """
    problem, internals = trace.problem, trace.internals
    heads = _per_head(contract, trace)
    heads["v_forward"] = heads["v"] if v_forward is None else v_forward
    pair = (internals.p, internals.dp) if presented is None else presented
    heads |= dict(zip(("p_presented", "dp_presented"), pair, strict=True))
    _require_shapes(problem, heads)
    for at, count, arrays in _stretches(contract, problem, heads):
        yield _defined(
            RowBlock(
                contract=contract,
                problem=problem,
                at=at,
                heads=count,
                norm_divides=internals.norm_divides,
                presented=presented is not None,
                defined=np.ones(len(arrays["p"]), dtype=bool),
                **arrays,
            )
        )


Stretch = tuple[tuple[int, int, int], int, dict[str, F64]]


def _stretches(contract: Contract, problem: Problem, heads: Mapping[str, F64]) -> Iterator[Stretch]:
    """First row, heads and arrays of each stretch: rows of a head, or small heads together."""
    stretch = max(ELEMENTS // max(problem.keys, 1) // STEP, 1) * STEP
    most = ELEMENTS // max(problem.queries * max(problem.keys, problem.head_dim), 1)
    together = _together(contract, problem, heads) if most > 1 and problem.queries else None
    flat, every = 0, problem.batch * problem.heads
    while flat < every:
        batch, head = divmod(flat, problem.heads)
        count = 1 if together is None else _run(together[flat : flat + most])
        if count > 1:
            yield (batch, head, 0), count, _stacked(heads, flat, count)
        else:
            for start in range(0, problem.queries, stretch):
                cut = slice(start, start + stretch)
                yield (
                    (batch, head, start),
                    1,
                    _alone(heads, (batch, head), problem.group, cut),
                )
        flat += count


def _alone(heads: Mapping[str, F64], at: tuple[int, int], group: int, cut: slice) -> dict[str, F64]:
    """Some rows of one head."""
    batch, head = at
    rows = len(range(heads["p"].shape[2])[cut])
    arrays = {}
    for name, x in heads.items():
        if name in TOKEN:
            arrays[name] = x[batch, head // group]
        elif name in NORM:
            one = x[batch, head // group]
            arrays[name] = np.broadcast_to(one, (rows, *one.shape))
        else:
            arrays[name] = x[batch, head, cut]
    return arrays


def _together(
    contract: Contract, problem: Problem, heads: Mapping[str, F64]
) -> npt.NDArray[np.bool_] | None:
    """Heads, by batch, whose rows may stand among others': none of their bounds reads a token."""
    if contract.delta_mode.from_output:
        return None
    finite = np.ones((problem.batch, problem.kv_heads), dtype=bool)
    for name in TOKEN:
        finite &= np.isfinite(heads[name]).all(axis=tuple(range(2, heads[name].ndim)))
    together = finite.repeat(problem.group, axis=1)
    if isinstance(contract.schedule, Windows):  # far logits are bounded by the keys themselves
        norms = np.linalg.norm(heads["q"], axis=-1).max(axis=-1, initial=0.0)
        norms = norms * heads["k_norm"].repeat(problem.group, axis=1)
        together &= np.isfinite(norms) & ~is_far(norms, problem)
    return together.ravel()


def logit_of(norms: F64, problem: Problem) -> F64:
    """Upper bound of logits in base 2, from norms of Q times norms of K."""
    return np.asarray(norms * (abs(problem.scale) * LOG2_E * (1 + NORM_SLACK)))


def is_far(norms: F64, problem: Problem) -> npt.NDArray[np.bool_]:
    """Where such a bound is too coarse to say that integers of that size are exact."""
    return np.asarray(logit_of(norms, problem) * 2 >= EXACT_EXPONENT)


def _run(flags: npt.NDArray[np.bool_]) -> int:
    """How many of the first ones are set; at least 1."""
    return max(int(flags.argmin()) if not flags.all() else len(flags), 1)


def _stacked(heads: Mapping[str, F64], first: int, count: int) -> dict[str, F64]:
    """Rows of some heads one below the other; tokens, which differ, are NaN."""
    arrays = {}
    queries, group = heads["p"].shape[2], heads["p"].shape[1] // heads["k"].shape[1]
    for name, x in heads.items():
        if name in TOKEN:
            arrays[name] = np.full(x.shape[2:], np.nan)
        elif name in NORM:
            key_heads = np.arange(first, first + count) // group
            some = x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])[key_heads]
            arrays[name] = some.repeat(queries, axis=0)
        else:
            batches, every, rows, *rest = x.shape
            some = x.reshape(batches * every, rows, *rest)[first : first + count]
            arrays[name] = some.reshape(count * rows, *rest)
    return arrays


def _per_head(contract: Contract, trace: Trace) -> dict[str, F64]:
    """Every tensor as float64 with axes (B, H, ...)."""
    internals, inputs, outputs = trace.internals, trace.inputs, trace.outputs
    named = {f.name: getattr(internals, f.name) for f in fields(internals)}
    kept = {n: x for n, x in named.items() if n in PAIR + CHANNEL + ROW + TOKEN}
    operands = operand_casts(contract)
    with np.errstate(all="ignore"):
        scales = {
            f"{name}_scale": _scale(operands[name], getattr(inputs, name), trace.problem.kv_heads)
            for name in ("do", "v")
        }
    tile = require_derived(contract).tile
    tokens_first = {"o": outputs.o, "do_input": inputs.do}
    moved = {n: x.astype(np.float64).swapaxes(1, 2) for n, x in tokens_first.items()}
    tops = {f"{n}_top": tops_of(named[n], tile) for n in ("p", "ds")}
    k_norm, v_norm = (_norms(named[name]) for name in ("k", "v"))
    norms = {
        "k_norm": k_norm.max(axis=-1, initial=0.0),
        "v_norm": tile_max(v_norm[..., None, :], tile)[..., 0, :],
    }
    return kept | moved | scales | tops | norms


def _norms(x: F64) -> F64:
    """Norm of each token, (B, H, N); what is not finite counts as 0."""
    return np.asarray(np.linalg.norm(np.nan_to_num(x, posinf=0.0, neginf=0.0), axis=-1))


def tops_of(x: F64, tile: int) -> F64:
    """``tile_max`` of |x|, a few rows at a time: a copy of x would double what there is."""
    rows = range(0, max(x.shape[-2], 1), STEP)
    return np.concatenate([tile_max(np.abs(x[..., i : i + STEP, :]), tile) for i in rows], axis=-2)


def tile_max(x: F64, tile: int) -> F64:
    """Maximum over square tiles of (..., M, N), repeated for the tiles' rows: (..., M, G)."""
    *lead, rows, keys = x.shape
    high, wide = (min(tile, max(length, 1)) for length in (rows, keys))  # one short tile
    padded = np.pad(x, [(0, 0)] * len(lead) + [(0, -rows % high), (0, -keys % wide)])
    down, across = padded.shape[-2] // high, padded.shape[-1] // wide
    tops = padded.reshape(*lead, down, high, across, wide).max(axis=(-3, -1), initial=0.0)
    return np.asarray(np.repeat(tops, high, axis=-2)[..., :rows, :])


def _scale(operand: OperandCast, x: npt.NDArray[np.float32], kv_heads: int) -> F64:
    """The scale of each row; where channels have their own, the largest."""
    heads_first = np.ascontiguousarray(x.swapaxes(1, 2))
    if not heads_first.size:
        return np.ones(heads_first.shape[:-1])
    _, scales = coded(operand, heads_first, kv_heads)
    return np.asarray(scales.max(axis=-1), dtype=np.float64)


def _require_shapes(problem: Problem, heads: Mapping[str, F64]) -> None:
    b, h, n, m, d = (
        problem.batch,
        problem.heads,
        problem.queries,
        problem.keys,
        problem.head_dim,
    )
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(PAIR, (b, h, n, m))
    shapes |= dict.fromkeys(CHANNEL, (b, h, n, d))
    shapes |= dict.fromkeys(ROW, (b, h, n)) | dict.fromkeys(TOKEN, (b, problem.kv_heads, m, d))
    shapes["v_scale"] = (b, problem.kv_heads, m)
    for name, x in heads.items():
        if name in TILE + NORM:  # made here
            continue
        if x.shape != shapes[name] or x.dtype != np.float64:
            raise InputError(
                f"{name} with shape {x.shape} and dtype {x.dtype}",
                rule=f"the problem gives {name} the shape {shapes[name]}, in float64",
                fix="pass inputs, internals and outputs of the same problem",
            )


def _defined(block: RowBlock) -> RowBlock:
    """The block with undefined rows emptied; NaN in V or K makes every row undefined."""
    finite = np.ones(block.rows, dtype=bool)
    for name in PAIR + CHANNEL:
        finite &= np.isfinite(getattr(block, name)).all(axis=1)
    for name in ROW:
        finite &= np.isfinite(getattr(block, name))
    if block.heads == 1:
        finite &= all(np.isfinite(getattr(block, name)).all() for name in TOKEN)
    finite &= block.norm != 0
    if finite.all():
        return block
    emptied = {n: np.where(finite[:, None], getattr(block, n), 0.0) for n in PAIR + CHANNEL}
    emptied |= {n: np.where(finite, getattr(block, n), 1.0) for n in ROW}
    emptied["delta"] = np.where(finite, block.delta, 0.0)
    emptied["shift"] = np.where(finite, block.shift, 0.0)
    cleaned = (*TOKEN, *TILE)
    emptied |= {n: np.nan_to_num(getattr(block, n), posinf=0.0, neginf=0.0) for n in cleaned}
    return replace(block, defined=finite, **emptied)  # type: ignore[arg-type]
