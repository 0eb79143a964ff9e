"""Dots in intervals: what float32 sums in any order, and the FP8 tensor core, can return.

fp32        |D - sum a b| <= n U sum |a b| + n (1 + K U) UNDERFLOW_ERROR, for n of K products that
            may be not 0, in any order, rounded or fused (Jeannerod and Rump 2013; theorem
            inner_any_order: additions round what underflow took of a product)
wgmma, known order and codes: the bits themselves
wgmma, any order of the products over L instructions from C = 0 (lemma wgmma-order-free):
            |D - sum p| <= sum of alignment losses + (L - 1) q + L 2^-13 B,  -N- <= D <= N+
            N+, N- the sums of positive and negative products, B = max(N+, N-),
            E = max(max e_i, floor(log2 B)), q = 2^(E - 13); a product with e_i >= E - 7 loses
            nothing, another at most min(|p|, q - 2^(e_i - 6)) (wgmma-window,
            wgmma-alignment-loss)

Every quantity grows with the magnitudes of the products, except e_i in the loss, which is taken of
the smallest nonzero magnitude; so the bound of the ends holds for all codes between them.

The midpoints' float64 sum errs by at most K 2^-53 sum |a b| for fp32 operands, and not at all for
codes (lemma exact-dot-float64). Not covered: f16 accumulators.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dmverify.errors import InputError
from dmverify.spec.arithmetic.interval import Interval, around, inward, point
from dmverify.spec.case import F64
from dmverify.spec.constants import constant
from dmverify.spec.lemmas import rests_on
from dmverify.spec.machine.hopper import wgmma_values

U = float(constant("U"))
UNDERFLOW_ERROR = float(constant("UNDERFLOW_ERROR"))
TWO_U64 = float(constant("TWO_U64"))
ORDER_FREE = float(constant("ORDER_FREE"))
ACC_TRUNCATION = float(constant("ACC_TRUNCATION"))
K32 = int(constant("K32"))
ALIGN_SLACK_BITS = int(constant("ALIGN_SLACK_BITS"))
I64 = npt.NDArray[np.int64]
FP32_MAX = float(np.finfo(np.float32).max)
SMALLEST_NORMAL = float(constant("E4M3_SMALLEST_NORMAL"))
OPERATIONS = int(constant("CLOSED_FORM_OPERATIONS"))
LONGEST = int(constant("EXACT_DOT_LENGTH"))
FRACTION = float(constant("PRODUCT_FRACTION"))


@rests_on("sum-fma-chain", "rn-error-subnormal")
def fp32_dot(a: Interval, b: Interval, *, spare: int = 0) -> Interval:
    """(..., M, K) and (..., N, K) to (..., M, N), summed in any order.

    Args:
        a: Left operand.
        b: Right operand.
        spare: Further roundings that a kernel may make of partial sums.
    """
    return fp32_enclosed(sums_of(a, b), spare=spare)


def fp32_enclosed(sums: Sums, *, spare: int) -> Interval:
    """The same from the sums of a dot."""
    terms, evaluation = sums.terms + spare, sums.evaluation
    error = sums.reach + (terms * U + evaluation) * (1 + evaluation) * sums.size
    tiny = UNDERFLOW_ERROR * (1 + (sums.length + spare) * U)
    error += np.where(sums.size > 0, terms * tiny, 0.0)  # in place: these are large
    mid, size = sums.mid, sums.size
    del sums  # and with it what it reaches, if nobody else holds it
    ends = around(mid, error)
    error += size
    return in_range(ends, error)


def in_range(x: Interval, mass: F64) -> Interval:
    """x, open where ``mass``, the sum of magnitudes, admits a partial sum that overflows."""
    wild = ~(mass * (1 + U) < FP32_MAX)
    if not wild.any():
        return x
    return Interval(np.where(wild, -np.inf, x.lo), np.where(wild, np.inf, x.hi))


def wgmma_bits(a: Interval, b: Interval) -> Interval:
    """A chain in natural order on known codes: (..., M, K) and (..., N, K) to (..., M, N)."""
    left, right = (x.lo.astype(np.float32) for x in (a, b))
    zero = np.zeros((left.shape[-2], right.shape[-2]), np.float32)
    return point(wgmma_values(left, right, zero))


@rests_on("wgmma-order-free", "wgmma-partials", "exact-dot-float64")
def wgmma_any_order(a: Interval, b: Interval) -> Interval:
    """The products of one chain in any order: (..., M, K) and (..., N, K) to (..., M, N).

    Raises:
        InputError: If K is too long for float64 to add the products exactly.
    """
    if a.shape[-1] > LONGEST:
        raise InputError(
            f"a dot of {a.shape[-1]} codes",
            rule=f"float64 adds up to {LONGEST} products of codes exactly",
            fix="split the problem",
        )
    sums = sums_of(a, b)
    mid, spread, size = sums.mid, sums.reach, sums.size
    up, down = _signed_sums(a, b)
    peak = np.maximum(up, down)
    top = np.maximum(_largest_power(a, b), _power(peak))  # 2^E
    quantum = ACC_TRUNCATION * top
    instructions = -(-a.shape[-1] // K32)
    error = _alignment(a, b, top, quantum)
    error = error + (instructions - 1) * quantum + instructions * ORDER_FREE * peak
    error = np.where(size > 0, spread + error * (1 + LONGEST * TWO_U64), 0.0)
    lo, hi = np.maximum(mid - error, -down), np.minimum(mid + error, up)
    wild = np.isnan(mid)
    return inward(np.where(wild, np.nan, lo), np.where(wild, np.nan, hi))


@dataclass
class Sums:
    """What the enclosure of a dot is made of; each is a sum over K, so a long K may be cut.

    Attributes:
        mid: Dot of the midpoints, (..., M, N).
        spread: How far the intervals reach from it, in float64's own rounding.
        size: Sum of the products' magnitudes.
        left: Elements that may be nonzero in each row of the left operand, (..., M).
        right: And of the right one, (..., N).
        length: K.
    """

    mid: F64
    spread: F64
    size: F64
    left: I64
    right: I64
    length: int

    def add(self, more: Sums) -> None:
        """Takes in further K, for the first rows; in the others the left operand is 0."""
        rows = more.mid.shape[-2]
        for total, part in zip(
            (self.mid, self.spread, self.size), (more.mid, more.spread, more.size), strict=True
        ):
            total[..., :rows, :] += part
        self.left[..., :rows] += more.left
        self.right += more.right
        self.length += more.length

    def counted(self, length: int) -> Sums:
        """The sums, with float64's rounding counted for at least ``length`` products."""
        return replace(self, length=max(self.length, length))

    @property
    def terms(self) -> I64:
        """How many products may be nonzero, at most, (..., M, N)."""
        return np.minimum(self.left[..., :, None], self.right[..., None, :])

    @property
    def evaluation(self) -> float:
        """Relative error of a float64 sum over K."""
        return (self.length + OPERATIONS) * TWO_U64

    @property
    def reach(self) -> F64:
        """Upper bound of ``spread``."""
        return self.spread * (1 + self.evaluation)


def sums_of(a: Interval, b: Interval) -> Sums:
    """The sums of (..., M, K) and (..., N, K)."""
    mid_a, mid_b = a.mid, b.mid
    size_a, size_b = a.magnitude, turned(b.magnitude)
    mid, size = mid_a @ turned(mid_b), size_a @ size_b
    spread = np.zeros_like(mid)
    if not a.known:
        spread = spread + a.radius @ size_b
    if not b.known:
        spread = spread + np.abs(mid_a) @ turned(b.radius)
    left, right = (_count(x > 0) for x in (size_a, turned(size_b)))
    return Sums(mid, spread, size, left, right, a.shape[-1])


def _count(flags: npt.NDArray[np.bool_]) -> I64:
    """How many are set along the last axis; in 32 bits, which takes half the time of 64."""
    return np.asarray(np.add.reduce(flags, axis=-1, dtype=np.int32), np.int64)


def no_sums(left: tuple[int, ...], right: int) -> Sums:
    """The sums of (*left, 0) and (..., right, 0)."""
    lead = left[:-1]
    mid, spread, size = (np.zeros((*left, right)) for _ in ("mid", "spread", "size"))
    rows, columns = np.zeros(left, np.int64), np.zeros((*lead, right), np.int64)
    return Sums(mid, spread, size, rows, columns, 0)


def turned(x: F64) -> F64:
    """Transposed matrices, (..., M, K) to (..., K, M)."""
    return x.swapaxes(-1, -2)


def _signed_sums(a: Interval, b: Interval) -> tuple[F64, F64]:
    """Upper bounds of N+ and N-, (M, N)."""
    (a_up, a_down), (b_up, b_down) = ((np.maximum(x.hi, 0), np.maximum(-x.lo, 0)) for x in (a, b))
    b_up, b_down = turned(b_up), turned(b_down)
    return a_up @ b_up + a_down @ b_down, a_up @ b_down + a_down @ b_up


def _power(x: F64) -> F64:
    """2^floor(log2 x); 0 for 0."""
    return np.where(x > 0, np.ldexp(1.0, np.frexp(x)[1] - 1), 0.0)


def _code_power(x: F64) -> F64:
    """2^e of E4M3 magnitudes, e unnormalised: -6 for subnormals; 0 for 0."""
    return np.where(x > 0, _power(np.maximum(x, SMALLEST_NORMAL)), 0.0)


def _largest_power(a: Interval, b: Interval) -> F64:
    left, right = _code_power(a.magnitude), _code_power(b.magnitude)
    top = np.zeros(_dot_shape(left, right))
    for k in range(left.shape[-1]):
        np.maximum(top, left[..., k, None] * right[..., None, :, k], out=top)
    return top


def _dot_shape(left: F64, right: F64) -> tuple[int, ...]:
    lead = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    return (*lead, left.shape[-2], right.shape[-2])


@rests_on("wgmma-window", "wgmma-alignment-loss")
def _alignment(a: Interval, b: Interval, top: F64, quantum: F64) -> F64:
    """Sum over the products of what alignment may take from them, (M, N)."""
    size_a, size_b = a.magnitude, b.magnitude
    power_a, power_b = (_code_power(_least(x)) for x in (a, b))
    edge = top / 2**ALIGN_SLACK_BITS
    total = np.zeros_like(top)
    for k in range(size_a.shape[-1]):
        power = power_a[..., k, None] * power_b[..., None, :, k]
        product = size_a[..., k, None] * size_b[..., None, :, k]
        loss = np.minimum(product, quantum - FRACTION * power)
        total += np.where(power < edge, loss, 0.0)
    return total


def _least(x: Interval) -> F64:
    """Smallest nonzero magnitude, or a bound below it; 0 for [0, 0]."""
    return np.where(x.magnitude > 0, np.maximum(x.mignitude, SMALLEST_NORMAL), 0.0)
