"""Collects what happened inside a head as exact float64 numbers.

Every number here fits float64 without rounding: a weight is 4 + 24 bits (code x one fp32 basis or
weight), P a fp32 number times a power of two, dP a fp32 number or a 14-bit accumulator times a
fp32 factor, a dequantised operand 4 + 24 bits.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention.backward import Backward
from dmverify.spec.attention.delta import Row
from dmverify.spec.attention.forward import Forward
from dmverify.spec.attention.operands import Head, Operand
from dmverify.spec.attention.products import Coded
from dmverify.spec.case import F64, Internals
from dmverify.spec.contracts import Contract, Windows
from dmverify.spec.namespace import Array
from dmverify.spec.problem import Problem


def collect(
    a: Arithmetic, contract: Contract, head: Head, fwd: Forward, bwd: Backward
) -> Internals:
    """The exact numbers of one head, padded: rows (M,), matrices (M, N)."""
    rows = len(fwd.live)
    row, cast = bwd.row, bwd.cast
    return Internals(
        **{name: _operand(a, getattr(head, name)) for name in ("q", "k", "v", "do")},
        weights=_weights(a, fwd, head.seen.shape),
        norm=_column(a, fwd.norm, rows),
        norm_divides=not isinstance(contract.schedule, Windows),
        o32=a.float64(fwd.o32),
        p=_times(a, cast.p_before, cast.p_unit, head.seen.shape),
        dp=_gradient(a, contract, row, head.seen.shape),
        shift=_column(a, bwd.shift, rows),
        delta=_column(a, bwd.delta, rows),
        ds=_times(a, cast.ds_before, cast.ds_unit, head.seen.shape),
        ds_cast=_coded(a, cast.ds, head.seen.shape),
        p_cast=_coded(a, cast.p, head.seen.shape),
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


def _gradient(a: Arithmetic, contract: Contract, row: Row, shape: tuple[int, ...]) -> F64:
    """dP as dS sees it: inside a fused operation unrounded, under a shift rounded first."""
    if contract.delta == "shifted":
        return np.asarray(a.float64(a.mul(row.raw, row.factor)).reshape(shape))
    return _times(a, row.raw, row.factor, shape)


def _operand(a: Arithmetic, x: Operand) -> F64:
    return np.asarray(a.float64(x.codes) * a.float64(x.scale))


def _weights(a: Arithmetic, fwd: Forward, shape: tuple[int, ...]) -> F64:
    code = a.float64(fwd.weight.codes) * a.float64(fwd.weight.scale)
    windows = a.float64(fwd.window_weight)
    scaled = code.reshape(shape[0], windows.shape[1], -1) * windows
    return np.asarray(scaled.reshape(shape))


def _column(a: Arithmetic, x: Array, rows: int) -> F64:
    return np.array(np.broadcast_to(a.float64(x)[:, 0], (rows,)))


def _times(a: Arithmetic, x: Array, unit: Array, shape: tuple[int, ...]) -> F64:
    return np.asarray((a.float64(x) * a.float64(unit)).reshape(shape))


def _coded(a: Arithmetic, x: Coded, shape: tuple[int, ...]) -> F64:
    return _times(a, x.codes, x.scale, shape)
