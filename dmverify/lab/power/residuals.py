"""Errors inside a kernel, in one row: of dS, of its cast, and of every term of the ledger.

The row is the median by sum abs(dS) of those where that is finite and not 0. Where dS is what
rounding leaves of sum P abs(dP), errors are parts of the latter. Errors that change a sum of
products take the sign of each product, so that nothing cancels: ``s`` is then every factor's error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from dmverify.conformance.evidence import Evidence
from dmverify.lab.power.deviation import Deviation, NothingToPlantError, Plant
from dmverify.lab.power.outputs import NOISE, products
from dmverify.lab.power.subject import Subject, of_answer
from dmverify.spec.case import F64, Internals, Outputs

ROW_SUM = 1e-3  # of sum abs(dS): a delta that is stale costs more
CAST = 2.0  # no cast moves dS by more than itself
CODES = 0.25  # two steps of E4M3
ACCUMULATED = 0.02  # as O that is scaled
STORED = 0.02  # ten half steps of BF16
ZERO_SUM = "delta=matched,ds_cast=zero-sum"
CHAINED = "cast zero-sum"

Row: TypeAlias = "tuple[int, int, int]"
"""Batch, head, query."""

Shown: TypeAlias = "tuple[Internals, Outputs]"
Change: TypeAlias = Callable[[Internals, Outputs, Row, float], Shown]


def chosen_row(ds: F64) -> Row:
    """The row that errors are planted in.

    Raises:
        NothingToPlantError: If dS is 0 in every row that is finite.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.abs(ds).sum(axis=-1)
    places = np.argwhere(np.isfinite(size) & (size > 0))
    if not len(places):
        raise NothingToPlantError("no row of dS is finite and not 0")
    order = np.argsort(size[tuple(places.T)], kind="stable")
    batch, head, query = (int(i) for i in places[order[len(order) // 2]])
    return batch, head, query


def _plant(change: Change) -> Plant:
    def plant(subject: Subject, size: float) -> Evidence:
        if subject.internals is None:
            raise NothingToPlantError("a call without heads has no inside")
        row = chosen_row(subject.internals.ds)
        with np.errstate(over="ignore"):
            internals, outputs = change(subject.internals, subject.outputs, row, size)
        return of_answer(subject, outputs, internals=internals)

    return plant


def _with_row(internals: Internals, row: Row, **rows: F64) -> Internals:
    """Arrays with one row replaced."""
    arrays = {}
    for name, values in rows.items():
        arrays[name] = getattr(internals, name).copy()
        arrays[name][row] = values
    return replace(internals, **arrays)


def _size(internals: Internals, row: Row) -> float:
    """Sum abs(dS), or sum P abs(dP) where dS is what rounding leaves of it."""
    size, most = float(np.abs(internals.ds[row]).sum()), float(products(internals)[row])
    return size if size >= NOISE * most else most


def _one_ds(internals: Internals, outputs: Outputs, row: Row, s: float) -> Shown:
    ds = internals.ds[row].copy()
    at = int(np.abs(ds).argmax())
    ds[at] += s * _size(internals, row)
    return _with_row(internals, row, ds=ds), outputs


def _cast_row(internals: Internals, outputs: Outputs, row: Row, s: float) -> Shown:
    return _cast_by(internals, row, s * np.abs(internals.ds[row])), outputs


def _cast_sum(internals: Internals, outputs: Outputs, row: Row, s: float) -> Shown:
    """A part of what is summed, spread as abs(dS) is."""
    size = np.abs(internals.ds[row])
    return _cast_by(internals, row, s * _size(internals, row) / size.sum() * size), outputs


def _cast_by(internals: Internals, row: Row, by: F64) -> Internals:
    """Cast dS moved the way that the cast has moved the row's sum."""
    way = np.copysign(1.0, (internals.ds_cast[row] - internals.ds[row]).sum())
    return _with_row(internals, row, ds_cast=internals.ds_cast[row] + way * by)


def _delta(internals: Internals, outputs: Outputs, row: Row, s: float) -> Shown:
    """Delta off, and dS made with it."""
    by = s * _size(internals, row)
    delta = internals.delta[row] + np.float64(by)
    ds = internals.ds[row] - internals.p[row] * (delta - internals.delta[row])
    return _with_row(internals, row, delta=delta, ds=ds), outputs


def _dp(internals: Internals, outputs: Outputs, row: Row, s: float) -> Shown:
    """A dP that is off by a constant, and dS made with it."""
    dp = internals.dp[row] + s * _size(internals, row)
    ds = internals.ds[row] + internals.p[row] * (dp - internals.dp[row])
    return _with_row(internals, row, dp=dp, ds=ds), outputs


def _p(internals: Internals, outputs: Outputs, row: Row, s: float) -> Shown:
    """P that sums to 1 + s, and dS made with it."""
    if not internals.delta[row]:
        raise NothingToPlantError("delta is 0, whatever P sums to")
    p, ds = (x[row] * (1 + s) for x in (internals.p, internals.ds))
    return _with_row(internals, row, p=p, ds=ds), outputs


def _aligned(x: F64, y: F64, s: float) -> F64:
    """The numbers x, off by s, each in the direction that makes the sum of x y grow."""
    if not (x * y).any():
        raise NothingToPlantError("every product of the sum is 0")
    return x * (1 + s * np.sign(x * y))


def _weights(internals: Internals, outputs: Outputs, row: Row, s: float) -> Shown:
    weights = _aligned(internals.weights[row], internals.dp[row], s)
    return _with_row(internals, row, weights=weights), outputs


def _do(internals: Internals, outputs: Outputs, row: Row, s: float) -> Shown:
    do = _aligned(internals.do[row], internals.o32[row], s)
    return _with_row(internals, row, do=do), outputs


def _o32(internals: Internals, outputs: Outputs, row: Row, s: float) -> Shown:
    o32 = _aligned(internals.o32[row], internals.do[row], s)
    return _with_row(internals, row, o32=o32), outputs


def _o(internals: Internals, outputs: Outputs, row: Row, s: float) -> Shown:
    batch, head, query = row
    o = outputs.o.copy()
    value = o[batch, query, head].astype(np.float64)
    o[batch, query, head] = _aligned(value, internals.do[row], s)
    return internals, replace(outputs, o=o)


def _one_v(subject: Subject, size: float) -> Evidence:
    raise NothingToPlantError("forward and backward of what is shown have one V")


_DELTA = "delta of one row off by s of sum abs(dS), and dS made with it"
_P = "P of one row sums to 1 + s, and dS is made with it"

_TERMS = (
    (
        "prob",
        "delta=stale",
        "the forward's codes of P off by s, with the signs of dP",
        CODES,
        _weights,
    ),
    ("grad", "delta=stale", "the codes of dO off by s, with the signs of dO O", CODES, _do),
    (
        "acc",
        "delta=stale",
        "O before its store off by s, with the signs of dO O",
        ACCUMULATED,
        _o32,
    ),
    ("out", "delta=stale", "O off by s, with the signs of dO O", STORED, _o),
    ("dot", "delta=stale", _DELTA, ROW_SUM, _delta),
    (
        "accdP",
        "delta=stale",
        "dP of one row off by s of sum abs(dS), and dS made with it",
        ACCUMULATED,
        _dp,
    ),
    ("norm", "delta=matched", _P, ROW_SUM, _p),
    ("match", "delta=matched", _DELTA, ROW_SUM, _delta),
    ("balance", "delta=renormalized", _DELTA, ROW_SUM, _delta),
    ("elem", "delta=matched", "one dS off by s of the row's sum abs(dS)", ROW_SUM, _one_ds),
    ("cast", "delta=matched", "every cast dS of a row + s abs(dS)", CAST, _cast_row),
    (CHAINED, ZERO_SUM, "every cast dS of a row + s abs(dS), cast in chains", CAST, _cast_row),
)

ROWS = (
    Deviation(
        "row-sum",
        "row-sum",
        "one dS off by s of the row's sum abs(dS)",
        ROW_SUM,
        _plant(_one_ds),
    ),
    Deviation(
        "row-sum-cast",
        "row-sum-cast",
        "the row's sum of cast dS + s sum abs(dS)",
        CAST,
        _plant(_cast_sum),
    ),
    *(
        Deviation(
            "ledger",
            f"ledger {name}",
            what,
            stated,
            _plant(change),
            mode=mode,
            term=name.partition(" ")[0],
        )
        for name, mode, what, stated, change in _TERMS
    ),
    Deviation(
        "ledger", "ledger vmis", "V of the forward is another", 1, _one_v, mode="delta=stale"
    ),
)
