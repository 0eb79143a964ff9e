"""Classes of values that narrow mutants name, recognised from the numbers themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from dmverify.spec.case import F32, Case

TINY = 2.0**-88  # an amax whose scale is near the smallest numbers
MIN_NORMAL = 2.0**-126  # of BF16
SHIFTED = 2.0  # |mean| over standard deviation of a common offset
SHARP = 100.0  # logits
OUTLYING = 20.0  # largest over median magnitude of a channel's amax


def _finite(case: Case) -> bool:
    return all(np.isfinite(x).all() for _, x in case.inputs.items())


def _size(x: F32) -> float:
    with np.errstate(invalid="ignore"):
        return float(np.abs(x).max(initial=0.0))


def _offset_v(case: Case) -> bool:
    v = case.inputs.v
    return _finite(case) and v.size > 0 and bool(abs(v.mean()) > SHIFTED * v.std() > 0)


def _constant_v(case: Case) -> bool:
    v = case.inputs.v
    return v.size > 1 and bool((v == v.flat[0]).all()) and v.flat[0] != 0


def _tiny(case: Case) -> bool:
    return any(0 < _size(x) < TINY for _, x in case.inputs.items())


def _all_zero(case: Case) -> bool:
    return any(x.size > 0 and not x.any() for _, x in case.inputs.items())


def _logits(case: Case) -> float:
    """A bound of the logits' size that both of norm and product reach in order of magnitude."""
    if not _finite(case) or not case.inputs.q.size or not case.inputs.k.size:
        return 0.0
    norms = [
        np.sqrt((x.astype(np.float64) ** 2).sum(-1)).max() for x in (case.inputs.q, case.inputs.k)
    ]
    return float(abs(case.problem.scale) * norms[0] * norms[1])


def _outlying(case: Case) -> bool:
    v = np.abs(case.inputs.v).reshape(-1, case.problem.head_dim).max(0, initial=0.0)
    return _finite(case) and bool(v.size and np.median(v) > 0 and v.max() > OUTLYING * np.median(v))


def _alike(case: Case) -> bool:
    k = case.inputs.k
    return k.shape[1] > 1 and bool((k == k[:, :1]).all()) and bool(k.any())


def _alike_q(case: Case) -> bool:
    q = case.inputs.q
    return q.shape[1] > 1 and bool((q == q[:, :1]).all()) and bool(q.any())


def _minus_zero(case: Case) -> bool:
    return any(bool((np.signbit(x) & (x == 0)).any()) for _, x in case.inputs.items())


def _subnormal_do(case: Case) -> bool:
    do = np.abs(case.inputs.do)
    return bool(((do > 0) & (do < MIN_NORMAL)).any())


def _strided(case: Case) -> bool:
    return any(x.size > 0 and not x.flags.c_contiguous for _, x in case.inputs.items())


VALUES: Mapping[str, Callable[[Case], bool]] = MappingProxyType(
    {
        "offset-v": _offset_v,
        "constant-v": _constant_v,
        "special": lambda case: not _finite(case),
        "special-do": lambda case: not np.isfinite(case.inputs.do).all(),
        "sharp": lambda case: _logits(case) > SHARP,
        "tiny": _tiny,
        "zeros": _all_zero,
        "outliers": _outlying,
        "alike": _alike,
        "strided": _strided,
        "minus-zero": _minus_zero,
        "subnormal-do": _subnormal_do,
        "infinite": lambda case: any(np.isinf(x).any() for _, x in case.inputs.items()),
        "special-k": lambda case: not np.isfinite(case.inputs.k).all(),
        "alike-q": _alike_q,
        "positive-v": lambda case: bool(case.inputs.v.size and (case.inputs.v > 0).all()),
    }
)
"""By name: V with a common offset, constant V, NaN or infinity (in dO), large logits, an input
below 2^-88 or of zeros, outlier channels of V, one key many times, inputs with gaps, a zero with a
sign, subnormal dO, an infinity, NaN or infinity in K, one query many times, V above zero."""
