"""The forward: logits, exponentials, their sum and cast, O and LSE.

The kernel computes e_j = exp(RN(s_j - m)) with its own row maximum m. With M the maximum of the
exact logits S_j, e_j = exp(M - m) exp(S_j - M) (1 + theta_j): the first factor is common to the row
and cancels in e / scale, e^ / l and e / l. So everything is enclosed up to that factor, and only
underflow, the logarithm and the row maximum itself need its range, exp(+- largest error of s).

| what | assumed of the kernel | error |
|---|---|---|
| s_j | float32 dot in any order, one product with the softmax scale | dot bound + u |
| s_j - m | one subtraction | u abs(s_j - m), enters as a relative error of e |
| exp | 2 ulp; 2 subnormal quanta; 0 below -104 | 4 u, 2^-148 |
| log | 2 ulp | 4 u abs(log l) |
| O = sum e^ V / l | dot in any order, one division, stored in BF16 | dot bound + u + store |

float64's exp and log are taken to be right within 2^-45 relative; numpy documents 4 ulp (2^-50).
Not covered: windows with a running maximum, rescaling, the offset encoding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dmverify.spec.case import F64
from dmverify.spec.contracts import Contract
from dmverify.spec.enclosure.casts import cast_weights
from dmverify.spec.enclosure.interval import (
    ETA,
    SLACK,
    Interval,
    U,
    closed,
    divide,
    dot,
    multiply,
    point,
    rounded,
    total,
)

EXP_ERROR = 4 * U
LOG_ERROR = 4 * U
SUBNORMAL_EXP = -86.9  # exp of less may be subnormal
ZERO_EXP = -104.0  # exp of less is 0


@dataclass(frozen=True, eq=False)
class HeadOperands:
    """One query head's operands and mask.

    Attributes:
        q: (Nq, D), and k, v (Nk, D), do (Nq, D): dequantised.
        do_input: dO before its cast, (Nq, D).
        seen: (Nq, Nk).
        scale: The softmax scale.
    """

    q: Interval
    k: Interval
    v: Interval
    do: Interval
    do_input: F64
    seen: npt.NDArray[np.bool_]
    scale: float

    @property
    def row_terms(self) -> F64:
        """How many keys each query sees, (Nq, 1), at least 1."""
        return np.asarray(self.seen.sum(1, keepdims=True), np.float64).clip(1)

    @property
    def column_terms(self) -> F64:
        """How many queries see each key, (Nk, 1), at least 1."""
        return np.asarray(self.seen.sum(0)[:, None], np.float64).clip(1)


@dataclass(frozen=True, eq=False)
class ForwardBounds:
    """What the backward needs, and the outputs before their store.

    Attributes:
        e: Exponentials up to the row's common factor, (Nq, Nk).
        l: Their sum, (Nq, 1).
        o: O before the store, (Nq, D).
        lse: (Nq, 1), -inf on dead rows.
    """

    e: Interval
    l: Interval  # noqa: E741 - the field's symbol
    o: Interval
    lse: Interval


def forward(contract: Contract, head: HeadOperands) -> ForwardBounds:
    """Encloses one head's forward."""
    raw = dot(head.q, head.k.T, head.q.lo.shape[-1])
    s = multiply(raw, point(np.array(head.scale)))
    live = np.asarray(head.seen.any(1, keepdims=True))
    mid = np.where(head.seen, s.mid, -np.inf)
    rad = np.where(head.seen, s.rad, 0.0)
    top = np.where(live, mid.max(1, keepdims=True, initial=-np.inf), 0.0)
    reach = rad.max(1, keepdims=True, initial=0.0)
    e = _exponentials(mid - top, rad, reach)
    l = total(e, head.row_terms)  # noqa: E741
    l = Interval(np.where(live, l.lo, 1.0), np.where(live, l.hi, 1.0))  # noqa: E741
    weights = cast_weights(e, contract.p_group, np.exp(reach) * (1 + SLACK))
    o = divide(dot(weights, head.v, head.row_terms), l)
    return ForwardBounds(e, l, o, _lse(top, reach, l, live))


def _exponentials(below: F64, rad: F64, reach: F64) -> Interval:
    """e up to the factor exp(M - m), with abs(M - m) <= reach; ``below`` is -inf where masked."""
    vanishes = below + rad + reach < ZERO_EXP
    argument = np.where(vanishes, 0.0, np.abs(below) + rad + reach)
    growth = rad + argument * U * (1 + 2 * U) + SLACK
    subnormal = below - rad - reach < SUBNORMAL_EXP
    quanta = np.where(subnormal, 4 * ETA * np.exp(reach) * (1 + SLACK), 0.0)
    lo = np.exp(below - growth) * (1 - EXP_ERROR - SLACK) - quanta
    hi = np.exp(below + growth) * (1 + EXP_ERROR + SLACK) + quanta
    return closed(np.where(vanishes, 0.0, np.maximum(lo, 0.0)), np.where(vanishes, 0.0, hi))


def _lse(top: F64, reach: F64, l: Interval, live: npt.NDArray[np.bool_]) -> Interval:  # noqa: E741
    """RN(m + log l): the common factor moves m and log l by opposite amounts."""
    lo, hi = np.log(l.lo), np.log(l.hi)
    size = np.maximum(np.abs(lo), np.abs(hi))
    error = LOG_ERROR * (size + reach) + SLACK * (size + np.abs(top))
    whole = rounded(top + lo - error, top + hi + error)
    opened = closed(whole.lo, whole.hi)
    return Interval(np.where(live, opened.lo, -np.inf), np.where(live, opened.hi, -np.inf))
