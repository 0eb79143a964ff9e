"""What a softmax's intervals have in common: a row's logits, its maximum and its sum.

Taken one by one, a logit x, the maximum b of its row and the sum l of exp(x - b) are independent
intervals, and exp(x - b) / l is anything once the logits are uncertain by more than about 80. But

    x - b <= 0, and it is 0 where x is above all others, since b is one of the x;
    l >= exp(0) = 1, up to exp's error, since it holds b's term and sums of float32 numbers that
    are not negative never fall below one of them;
    e_j / l = f_j / (f_j + sum of the others' f), f_k = exp(x_k - c), whatever b was and for any
    fixed c, up to the roundings of x - b, exp and the sum.

The last quotient rises with x_j and falls with every other x, so its ends are those of the logits.

| rounding | relative error of f |
|---|---|
| x - b | exp(U |x - b|) |
| exp | 2^-22, and 2^-148 absolutely relative to b |
| the sum of n terms | (n - 1) U |

Both passes of a contract that takes whole rows take e from the same logits. Not covered:
kernels whose backward forms the logits again in another order.
"""

from __future__ import annotations

import numpy as np

from dmverify.spec.arithmetic.enclosure_dot import OPERATIONS, TWO_U64, U
from dmverify.spec.arithmetic.enclosure_ends import opened, shut, stretched
from dmverify.spec.arithmetic.interval import Interval, inward, rounded
from dmverify.spec.case import F64
from dmverify.spec.constants import constant
from dmverify.spec.lemmas import rests_on
from dmverify.spec.namespace import Array

EXP, EXP_ABSOLUTE, EXP_VANISHES, FLOAT64_FUNCTION = (
    float(constant(name)) for name in ("EXP", "EXP_ABSOLUTE", "EXP_VANISHES", "FLOAT64_FUNCTION")
)
LEAST_SUM = (1 - EXP) * (1 - 2 * U) ** 2  # exp(0) as it may be, or its code times its basis


def exponential(a: Interval) -> Interval:
    """exp within two units, 0 below -104."""
    lo, hi = stretched(np.exp(a.lo), np.exp(a.hi), EXP)
    lo = np.maximum(lo - EXP_ABSOLUTE, 0.0)
    hi = np.where(a.hi < -EXP_VANISHES, 0.0, hi + EXP_ABSOLUTE)
    return shut(a, inward(np.minimum(lo, hi), hi))


def below_maximum(difference: Interval, x: Interval, seen: Array) -> Interval:
    """x - b of the seen x, b their maximum, within ``difference``; (M, ..., N)."""
    least = rounded(*[np.minimum(x.lo - _largest_other(x.hi, seen), 0.0)] * 2).lo
    lo = np.where(seen, np.maximum(difference.lo, least), difference.lo)
    hi = np.where(seen, np.minimum(difference.hi, 0.0), difference.hi)
    wild = difference.open
    return Interval(np.where(wild, -np.inf, lo), np.where(wild, np.inf, hi))


def with_largest(total: Interval) -> Interval:
    """The sum of a row's exponentials, of which one is exp(0), or of code x basis of them."""
    lo = np.maximum(total.lo, LEAST_SUM)
    return Interval(np.where(total.open, -np.inf, lo), total.hi)


@rests_on("rn-error", "sum-any-tree", "relative-inverse")
def share_ends(x: Interval, top: Interval, seen: Array, *, counted: int) -> tuple[F64, F64]:
    """Ends of exp(x - b) / sum of exp(x - b), real numbers in [0, 1]; (M, ..., N).

    Args:
        x: Logits.
        top: b, the maximum of each row, (M, ..., 1).
        seen: numpy bool, which keys count.
        counted: Keys that float64's own rounding is counted for, at least.
    """
    low, high = _exponentials(x, top, seen)
    least, most = low.sum(-1, keepdims=True), high.sum(-1, keepdims=True)
    terms = seen.sum(-1, keepdims=True)
    evaluation = (max(x.shape[-1], counted) + OPERATIONS) * TWO_U64
    slack = terms * U * (1 + 2 * terms * U) + evaluation
    others_least = np.maximum(least * (1 - evaluation) - low, 0.0)
    others_most = np.maximum(most * (1 + evaluation) - high, 0.0)
    with np.errstate(all="ignore"):
        lo = low / (low + others_most) * (1 - slack)
        hi = high / (high + others_least) * (1 + slack)
    known = np.isfinite(lo) & np.isfinite(hi)
    return np.where(known, np.maximum(lo, 0.0), 0.0), np.where(known, np.minimum(hi, 1.0), 1.0)


def at_largest(x: Interval, windows: Interval, keys: Interval) -> Interval:
    """Hull of x (M, W, L) over every key that may be a row's largest: (M, 1)."""
    chosen = windows.hi >= windows.lo.max(1, keepdims=True)
    near = keys.hi >= keys.lo.max(2, keepdims=True)
    wanted = near & chosen & (keys.hi > -np.inf)
    lo = np.where(wanted, x.lo, np.inf).min((1, 2))[:, None]
    hi = np.where(wanted, x.hi, -np.inf).max((1, 2))[:, None]
    none = ~wanted.any((1, 2))[:, None]  # a dead row: the first of keys that are all lowest
    first = x[:, 0, :1]
    return opened(np.where(none, first.lo, lo), np.where(none, first.hi, hi))


def _exponentials(x: Interval, top: Interval, seen: Array) -> tuple[F64, F64]:
    """Ends of exp(x - b) as a kernel may have it, times exp(b - c) for the middle c of b."""
    centre = top.mid
    reach = np.maximum(np.abs(x.lo - top.hi), np.abs(x.hi - top.lo))
    moved = (U + OPERATIONS * TWO_U64) * (reach + top.radius)
    relative = EXP + FLOAT64_FUNCTION
    absolute = EXP_ABSOLUTE * np.exp(top.radius)
    low = np.exp(x.lo - centre - moved) * (1 - relative) - absolute
    high = np.exp(x.hi - centre + moved) * (1 + relative) + absolute
    return np.where(seen, np.maximum(low, 0.0), 0.0), np.where(seen, high, 0.0)


def _largest_other(x: F64, seen: Array) -> F64:
    """The largest seen x of each row but the element's own, -inf if there is none; (M, ..., N)."""
    visible = np.where(seen, x, -np.inf)
    first = visible.max(-1, keepdims=True)
    here = visible.argmax(-1)[..., None]
    rest = visible.copy()
    np.put_along_axis(rest, here, -np.inf, -1)
    second = rest.max(-1, keepdims=True)
    at = np.arange(x.shape[-1]) == here
    return np.asarray(np.where(at, second, first))
