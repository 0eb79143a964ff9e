"""norm and prob: what the softmax's roundings leave of sum P = 1 and of P = P~.

Forward and backward each form e. With f_j the exact product of the forward's e and its window
weight, F = sum f, p_j = f_j / F, the backward has P_j = p_j (1 + pi_j) with
    |pi_j| <= exp(lambda_j) (1 + s) (1 + U)^k - 1,
s the relative error of l as a sum and lambda_j bounding |ln(backward e / forward e)|:

    rows        lambda = 0: both passes take e = exp(s - b) of the same s and b
    windows     lambda_j = c U (|x - b| + |x - M| + |b - R|) + 3 EX2 / (1 - EX2), arguments in
                base 2, c the chord of 2^t - 1 for |t| <= 2^-10 (above ln 2: it covers U^2)

where x - M is -log2 P up to log2 l, l in (1/4, 2 n]; with r <= 1/2 what a window's maximum misses
8 by (window-argument), |x - b| <= max(8 + r, |x - M|), since b <= M - 8; |b - R| <= max(32,
|x - M| + r), since R moves when b passes it by 32 and R <= M - 8. An e or a window weight flushed
to 0 loses at most 2^-126 2^8 of the sum a key.

norm: |delta| |1 - B|, |1 - B| <= sum_j p_j (exp(lambda_j) - 1), compounded with s and the
roundings, p_j <= P_j / (1 - |pi_j|).

prob: P~_j = w_j (1 + nu) / W, w_j the weights, |w_j - f_j| / F <= eps_j = max(p_j / 17, floor) and
the floor half an E4M3 subnormal in units of the group's largest p (448 codes it, or 256 up to
2^r; codes that are f times e have the row's largest p, whose e is 1, and round 1 / f besides); and
never more than p_j (cast-shrinks), which a rounded 1 / f passes by 2 U.
    unrounded normaliser   |P - P~| <= eps_j + |pi_j| p_j, and p_j <= P_j / (1 - |pi_j|)
    codes: W = sum w       also (p_j) E / (1 - E) of one sign, E = sum eps; eps_j grows by 1/(1 - E)
so |prob| <= sum_j (eps_j + kappa_j (P_j + eps_j)) |dP*_j| / (1 - E) + |sum_j P dP*| E / (1 - E),
1 + kappa_j = (1 + nu) / (1 - |pi_j|), only while E is below 1/2. Each P_j and e may besides have
lost what underflow takes of one key.

associated: P is P~ rounded twice, and either may underflow; sum P~ = 1 up to nu, the error of the
sum of codes.

Sources: derived here; ex2's error measured on an H200. Not covered: contracts whose two passes
use different exponential functions.
"""

from __future__ import annotations

import numpy as np

from dmverify.spec.case import F64
from dmverify.spec.ledger.bounds.constants import (
    CAST_ROUNDINGS,
    E4M3_ABSOLUTE,
    E4M3_MAX,
    E4M3_RELATIVE,
    E4M3_SMALLEST_NORMAL,
    EX2,
    EX2_CALLS,
    EXP2_CHORD,
    FLUSH,
    FP32_SMALLEST_NORMAL,
    LEAST_WINDOW_CODE,
    OWN_UNDERFLOWS,
    P_MAX_EXPONENT,
    RESCALE_THRESHOLD,
    SCALE_DENORMAL,
    SMALL_RESIDUE,
    UNDERFLOW_ERROR,
    WINDOW_RESIDUE,
    U,
)
from dmverify.spec.ledger.bounds.magnitudes import (
    Magnitudes,
    compound,
    largest,
    once,
    path,
    sum_error,
    total,
)
from dmverify.spec.ledger.bounds.tensor_core import chain_error
from dmverify.spec.lemmas import rests_on

FLUSHED = FLUSH * 2.0**P_MAX_EXPONENT
TINY_GROUP = 2 * SCALE_DENORMAL  # e <= l P: below, a group's basis may be subnormal
FULL = E4M3_MAX / 2  # a window's largest code is 256 for small residues: more than this


def norm_bound(sizes: Magnitudes) -> F64:
    """|delta| |1 - B|, (M,)."""
    return np.asarray(sizes.delta * unit_sum_error(sizes))


def unit_sum_error(sizes: Magnitudes) -> F64:
    """Bound of |1 - B|, (M,); 1 for a row that sees no key."""
    if sizes.delta_mode.forward_p:
        error = compound(code_sum_error(sizes), path(2))
    else:
        p = sizes.block.p + _flushed(sizes)
        drift = total(p * _grown(sizes) * np.expm1(drift_exponent(sizes)))
        error = compound(drift, _inverse(sum_error(sizes)), path(quotient_roundings(sizes)))
    return np.where(sizes.keys > 0, error + sizes.keys * _flushed(sizes), 1.0)


def prob_bound(sizes: Magnitudes) -> F64:
    """sum_j |P - P~| |dP*|, with the common factor of the normaliser apart, (M,)."""
    p = sizes.block.p
    if sizes.delta_mode.forward_p:
        under = OWN_UNDERFLOWS * UNDERFLOW_ERROR
        return total((path(2) * sizes.forward_p + under) * sizes.dp_size)
    if sizes.normaliser == "unrounded":
        drift, flushed = np.expm1(drift_exponent(sizes)), _flushed(sizes)
        relative = _inverse(compound(drift, path(quotient_roundings(sizes))))
        error = code_error(sizes) + relative * (p + flushed) + flushed
        return total(error * sizes.dp_size)
    each = code_error(sizes)
    lost = total(each)
    short = np.where(2 * lost < 1, 1 - lost, 1.0)  # elsewhere a premise fails
    relative = compound(_inverse(_between_passes(sizes)), code_sum_error(sizes)[:, None])
    flushed = _flushed(sizes)
    error = (each + relative * (p + flushed + each) + flushed) / short[:, None]
    common = np.abs(sizes.sums.p_dp_exact.to_float()) * lost / short
    return np.asarray(total(error * sizes.dp_size) + common)


def _between_passes(sizes: Magnitudes) -> F64:
    """|pi_j|, (M, N)."""
    drift, quotient = np.expm1(drift_exponent(sizes)), path(quotient_roundings(sizes))
    return compound(drift, _inverse(sum_error(sizes))[..., None], quotient)


def _grown(sizes: Magnitudes) -> F64:
    """By how much the forward's p may exceed the backward's P, (M, N)."""
    return np.asarray(1 + _inverse(_between_passes(sizes)))


def _flushed(sizes: Magnitudes) -> float:
    """What an element loses at most to underflow, in units of the row's sum."""
    if sizes.windowed:
        return FLUSHED
    return UNDERFLOW_ERROR * (OWN_UNDERFLOWS if sizes.delta_mode.forward_p else 1)


def drift_exponent(sizes: Magnitudes) -> F64:
    """lambda_j, (M, N)."""
    if not sizes.windowed:
        return np.zeros_like(sizes.block.p)
    p = np.maximum(sizes.block.p, FP32_SMALLEST_NORMAL * U)
    log_l = np.log2(np.maximum(sizes.keys, 2.0))[:, None] + 1.0
    below = np.abs(np.log2(p)) + log_l
    window = np.maximum(P_MAX_EXPONENT + WINDOW_RESIDUE, below)
    arguments = window + below + np.maximum(RESCALE_THRESHOLD, below + WINDOW_RESIDUE)
    return np.asarray(EXP2_CHORD * U * arguments + EX2_CALLS * _inverse(EX2))


@once
def code_error(sizes: Magnitudes) -> F64:
    """eps_j: the cast of e in units of P, (M, N)."""
    p = sizes.block.p
    top = _group_max(sizes, p)
    largest = 2.0**P_MAX_EXPONENT if sizes.windowed else sizes.p_factor or E4M3_MAX
    floor = top * (E4M3_ABSOLUTE / largest) * _offset_drift(sizes)[:, None]
    own = path(CAST_ROUNDINGS + (1 if sizes.p_factor else 0))
    error = np.minimum(np.maximum(p * E4M3_RELATIVE, floor), p) + p * own
    error = np.where(top < TINY_GROUP, p + floor, error)
    error = error + UNDERFLOW_ERROR * (1 + own) * sizes.block.seen
    return np.asarray(error * _grown(sizes))


def code_sum_error(sizes: Magnitudes) -> F64:
    """nu: relative error of the sum of codes and its reciprocal, (M,)."""
    return _inverse(codes_error(sizes))


@once
def codes_error(sizes: Magnitudes) -> F64:
    """Relative error of the sum of codes, (M,)."""
    if not sizes.windowed:
        return compound(np.maximum(sizes.keys - 1, 0) * U, path(2))
    weights = _by_window(sizes, np.abs(sizes.block.weights))
    error = np.zeros(len(weights))
    for w in range(weights.shape[1]):
        floor = window_unit(sizes, weights[:, w]) * E4M3_SMALLEST_NORMAL
        ones = np.ones((1, weights.shape[2]))
        lost = chain_error(weights[:, w], ones, x_floor=floor, y_floor=np.zeros(1))
        error += lost[:, 0]
    size = total(sizes.block.weights)
    relative = np.divide(error, size, out=np.zeros_like(error), where=size > 0)
    return compound(relative, path(sizes.windows + 2))


@rests_on("max-code-256", "window-code")
def window_unit(sizes: Magnitudes, weights: F64) -> F64:
    """Upper bound of a window's weight beta, (M,): its largest code is at least 224, or 176."""
    code = np.where(_residue(sizes) <= SMALL_RESIDUE, FULL, LEAST_WINDOW_CODE)
    return np.asarray(largest(weights) / code)


@rests_on("window-argument")
def _residue(sizes: Magnitudes) -> F64:
    """Upper bound of what a window's largest exponent misses 8 by, (M,)."""
    return np.minimum(2 * U * (sizes.logit + P_MAX_EXPONENT), WINDOW_RESIDUE)


def quotient_roundings(sizes: Magnitudes) -> int:
    """Roundings between e and P: the division, or the reciprocal and the product."""
    return 2 if sizes.windowed else 1


def _by_window(sizes: Magnitudes, x: F64) -> F64:
    missing = sizes.windows * sizes.width - x.shape[1]
    return np.pad(x, ((0, 0), (0, missing))).reshape(len(x), sizes.windows, sizes.width)


def _group_max(sizes: Magnitudes, p: F64) -> F64:
    """The largest P of each element's group, (M, N); with a static factor of its row, e = 1."""
    if sizes.p_factor:
        return np.broadcast_to(largest(p)[:, None], p.shape)
    size = sizes.schedule.p_group
    padded = np.pad(p, ((0, 0), (0, -p.shape[1] % size)))
    top = padded.reshape(len(p), -1, size).max(axis=2)
    return np.repeat(top, size, axis=1)[:, : p.shape[1]]


def _offset_drift(sizes: Magnitudes) -> F64:
    """By how much a window's largest e may miss 2^8: the residue of b's rounding, (M,)."""
    if not sizes.windowed:
        return np.ones(sizes.block.rows)
    return np.asarray(np.exp2(_residue(sizes)) * (1 + _inverse(EX2)))


@rests_on("relative-inverse")
def _inverse(relative: F64 | float) -> F64:
    """1 / (1 - r) - 1 for 0 <= r < 1, infinite beyond."""
    r = np.asarray(relative, dtype=np.float64)
    return np.divide(r, 1 - r, out=np.full_like(r, np.inf), where=r < 1)
