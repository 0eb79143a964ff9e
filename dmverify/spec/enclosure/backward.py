"""The backward: P, dP, delta, dS and the casts, then dQ, dK and dV before their store.

    P = RN(e / l)      dP = dO^ V^T      dS = RN(P RN(dP - delta))
    dQ = dS^ K^ scale      dK = dS^T Q^ scale      dV = P^T dO^

| delta | enclosed as |
|---|---|
| stale | sum of dO O over the channels, O among its stored BF16 values |
| consistent | the same with dO^ |
| matched | sum of P dP over the keys, any order |

Sums run over the keys a query sees, or the queries that see a key times the heads of its group, in
any order. Not covered: the other modes, the zero-sum cast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dmverify.spec.case import F64
from dmverify.spec.contracts import Contract
from dmverify.spec.enclosure.casts import cast_interval
from dmverify.spec.enclosure.forward import ForwardBounds, HeadOperands
from dmverify.spec.enclosure.interval import (
    ETA,
    Interval,
    U,
    around,
    divide,
    dot,
    multiply,
    point,
    subtract,
)


@dataclass(frozen=True, eq=False)
class BackwardBounds:
    """One query head's share; dk and dv are not yet summed over the group.

    Attributes:
        delta: (Nq, 1).
        ds: dS before the cast, (Nq, Nk).
        ds8: dS after the cast.
        dq: (Nq, D), before the store.
        dk: (Nk, D).
        dv: (Nk, D).
    """

    delta: Interval
    ds: Interval
    ds8: Interval
    dq: Interval
    dk: Interval
    dv: Interval


def backward(
    contract: Contract, head: HeadOperands, fwd: ForwardBounds, stored_o: Interval, group: int
) -> BackwardBounds:
    """Encloses one head's backward; ``group`` heads are summed into dK and dV afterwards."""
    p = divide(fwd.e, fwd.l)
    dp = dot(head.do, head.v.T, head.do.lo.shape[-1])
    delta = DELTAS[contract.delta](head, p, dp, stored_o)
    ds = _ds(head, p, dp, delta)
    side = contract.tile
    ds8 = cast_interval(ds, side, side, _least(p, dp, delta))
    p8 = cast_interval(p, side, side)
    scale = point(np.array(head.scale))
    shared = head.column_terms * group + 2  # the sum over the group may run before the scale
    return BackwardBounds(
        delta=delta,
        ds=ds,
        ds8=ds8,
        dq=multiply(dot(ds8, head.k, head.row_terms), scale),
        dk=multiply(dot(ds8.T, head.q, shared), scale),
        dv=dot(p8.T, head.do, shared),
    )


def _ds(head: HeadOperands, p: Interval, dp: Interval, delta: Interval) -> Interval:
    step = multiply(p, subtract(dp, delta))
    hidden = ~head.seen & ~step.open
    return Interval(np.where(hidden, 0.0, step.lo), np.where(hidden, 0.0, step.hi))


def _least(p: Interval, dp: Interval, delta: Interval) -> F64:
    """The smallest nonzero abs(dS): dP - delta is a multiple of the smaller one's last bit."""
    smaller = np.minimum(dp.mig, delta.mig)
    last_bit = np.ldexp(1.0, np.frexp(smaller)[1] - 24)
    product = p.lo * np.where(smaller > 0, last_bit, ETA)
    return np.maximum(product * (1 - 4 * U), ETA)


def _matched(head: HeadOperands, p: Interval, dp: Interval, _: Interval) -> Interval:
    middle = (p.mid * dp.mid).sum(1, keepdims=True)
    sizes = p.hi * dp.mag
    spread = p.rad * dp.mag + np.abs(p.mid) * dp.rad
    return _summed(middle, sizes, spread, head.row_terms)


def _stale(head: HeadOperands, _: Interval, __: Interval, stored_o: Interval) -> Interval:
    return _row_dot(point(head.do_input), stored_o)


def _consistent(head: HeadOperands, _: Interval, __: Interval, stored_o: Interval) -> Interval:
    return _row_dot(head.do, stored_o)


def _row_dot(a: Interval, b: Interval) -> Interval:
    """Row by row, (N, D) each to (N, 1)."""
    middle = (a.mid * b.mid).sum(1, keepdims=True)
    spread = a.mag * b.rad + a.rad * b.mag
    return _summed(middle, a.mag * b.mag, spread, float(a.lo.shape[1]))


def _summed(middle: F64, sizes: F64, spread: F64, terms: F64 | float) -> Interval:
    """A float32 dot in any order around ``middle``, whose terms are off by ``spread``."""
    length = sizes.shape[1]
    whole = sizes.sum(1, keepdims=True)
    float64_error = (length + 4) * 2.0**-51
    rad = spread.sum(1, keepdims=True) * (1 + float64_error) + float64_error * whole
    rad = rad + terms * U / (1 - terms * U) * whole + np.where(whole > 0, terms * ETA, 0.0)
    return around(middle, np.where(whole < 2.0**127, rad, np.inf))


DELTAS: dict[str, Callable[[HeadOperands, Interval, Interval, Interval], Interval]] = {
    "stale": _stale,
    "consistent": _consistent,
    "matched": _matched,
}
"""How each covered mode encloses delta from (head, P, dP, stored O)."""
