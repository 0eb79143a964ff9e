"""Collects what happened inside a head as exact float64 numbers.

Every number here fits float64 without rounding: a weight is 4 + 24 bits (code x one fp32 basis or
weight), P a fp32 number times a power of two, dP a fp32 number or a 14-bit accumulator times a
fp32 factor, a dequantised operand 4 + 24 bits.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from dmverify.spec.attention.choices import Choices
from dmverify.spec.attention.num import Num
from dmverify.spec.attention.operands import BlockScaled, Head
from dmverify.spec.attention.state import BackwardPass, ForwardPass, Row
from dmverify.spec.case import F64, Internals
from dmverify.spec.problem import Problem


def collect(choices: Choices, head: Head, fwd: ForwardPass, bwd: BackwardPass) -> Internals:
    """The exact numbers of one head, padded: rows (M,), matrices (M, N)."""
    rows = len(fwd.live)
    row, cast = bwd.row, bwd.cast
    return Internals(
        **{name: _operand(getattr(head, name)) for name in ("q", "k", "v", "do")},
        weights=_weights(fwd, head.seen.shape),
        norm=_column(fwd.norm, rows),
        norm_divides=fwd.divides,
        o32=fwd.o32.float64(),
        p=_times(cast.p_before, cast.p_unit, head.seen.shape),
        dp=_gradient(choices, row, head.seen.shape),
        shift=_column(bwd.shift, rows),
        delta=_column(bwd.delta, rows),
        ds=_times(cast.ds_before, cast.ds_unit, head.seen.shape),
        ds_cast=_coded(cast.ds, head.seen.shape),
        p_cast=_coded(cast.p, head.seen.shape),
    )


def gather(problem: Problem, heads: list[Internals]) -> Internals:
    """Heads as (B, H, ...) with the padding cut off."""
    group, n, m = problem.group, problem.queries, problem.keys
    cut = {"q": (n,), "do": (n,), "o32": (n,), "k": (m,), "v": (m,)}
    cut |= dict.fromkeys(("norm", "shift", "delta"), (n,))
    tensors: dict[str, F64] = {}
    for field in fields(Internals):
        if field.name == "norm_divides":
            continue
        some = heads[::group] if field.name in ("k", "v") else heads
        rows, *columns = cut.get(field.name, (n, m))
        arrays = [getattr(head, field.name)[:rows] for head in some]
        arrays = [x[:, : columns[0]] if columns else x for x in arrays]
        tensors[field.name] = np.stack(arrays).reshape(
            problem.batch, len(arrays) // problem.batch, *arrays[0].shape
        )
    return Internals(**tensors, norm_divides=heads[0].norm_divides)


def _gradient(choices: Choices, row: Row, shape: tuple[int, ...]) -> F64:
    """dP as dS sees it: inside a fused operation unrounded, under a shift rounded first."""
    if choices.mode.shifts:
        return row.dp.float64().reshape(shape)
    return _times(row.acc, row.scale, shape)


def _operand(x: BlockScaled) -> F64:
    return np.asarray(x.codes.float64() * x.scale.float64())


def _weights(fwd: ForwardPass, shape: tuple[int, ...]) -> F64:
    code = fwd.p.codes.float64() * fwd.p.scale.float64()
    windows = fwd.betas.float64()
    scaled = code.reshape(shape[0], windows.shape[1], -1) * windows
    return np.asarray(scaled.reshape(shape))


def _column(x: Num, rows: int) -> F64:
    return np.array(np.broadcast_to(x.float64()[:, 0], (rows,)))


def _times(x: Num, unit: Num, shape: tuple[int, ...]) -> F64:
    return np.asarray((x.float64() * unit.float64()).reshape(shape))


def _coded(x: BlockScaled, shape: tuple[int, ...]) -> F64:
    return _times(x.codes, x.scale, shape)
