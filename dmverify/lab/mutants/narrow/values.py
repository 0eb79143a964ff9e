"""Narrow faults of the values, alone or with a level of the shape, and of the contract's words.

A value class is recognised from the numbers themselves, as a kernel would meet them.
"""

from __future__ import annotations

import numpy as np

from dmverify.lab.mutants.narrow.fault import Narrow
from dmverify.spec.case import F32, Case
from dmverify.spec.contracts import get_contract

TINY = 2.0**-88  # an amax whose scale is near the smallest numbers
SHIFTED = 2.0  # |mean| over standard deviation of a common offset
SHARP = 100.0  # logits
OUTLYING = 20.0  # largest over median magnitude of a channel's amax


def _finite(case: Case) -> bool:
    return all(np.isfinite(x).all() for _, x in case.inputs.items())


def _strange(x: F32) -> bool:
    return not np.isfinite(x).all()


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


def _strided(case: Case) -> bool:
    return any(x.size > 0 and not x.flags.c_contiguous for _, x in case.inputs.items())


def _delta(name: str, case: Case) -> bool:
    return get_contract(case.contract).delta == name


VALUES = (
    Narrow(
        "offset-d128",
        "V with a common offset, D = 128",
        lambda p: p.head_dim == 128,
        "times-minus-3",
        values=_offset_v,
    ),
    Narrow(
        "offset-no-mask",
        "V with a common offset, no mask",
        lambda p: not p.causal,
        "doubled",
        values=_offset_v,
    ),
    Narrow(
        "constant-v-group",
        "constant V, grouped heads",
        lambda p: p.group > 1,
        "doubled",
        values=_constant_v,
    ),
    Narrow(
        "constant-v-no-mask",
        "constant V, no mask",
        lambda p: not p.causal,
        "doubled",
        values=_constant_v,
    ),
    Narrow(
        "nan-d128",
        "NaN or infinity, D = 128",
        lambda p: p.head_dim == 128,
        "swallowed",
        values=lambda c: not _finite(c),
    ),
    Narrow(
        "nan-no-mask",
        "NaN or infinity, no mask",
        lambda p: not p.causal,
        "swallowed",
        values=lambda c: not _finite(c),
    ),
    Narrow(
        "nan-batch-2",
        "NaN or infinity, 2 batches",
        lambda p: p.batch == 2,
        "swallowed",
        values=lambda c: not _finite(c),
    ),
    Narrow(
        "nan-do",
        "NaN or infinity in dO",
        lambda p: True,
        "swallowed",
        values=lambda c: _strange(c.inputs.do),
    ),
    Narrow(
        "sharp-d256",
        "logits of 100 and more, D = 256",
        lambda p: p.head_dim == 256,
        "lse-shift",
        values=lambda c: _logits(c) > SHARP,
    ),
    Narrow(
        "sharp-no-mask",
        "logits of 100 and more, no mask",
        lambda p: not p.causal,
        "doubled",
        values=lambda c: _logits(c) > SHARP,
    ),
    Narrow(
        "tiny-d128",
        "an input below 2^-88, D = 128",
        lambda p: p.head_dim == 128,
        "lse-shift",
        values=_tiny,
    ),
    Narrow(
        "tiny-no-mask",
        "an input below 2^-88, no mask",
        lambda p: not p.causal,
        "lse-shift",
        values=_tiny,
    ),
    Narrow(
        "zero-d128",
        "an input of zeros, D = 128",
        lambda p: p.head_dim == 128,
        "lse-shift",
        values=_all_zero,
    ),
    Narrow(
        "outliers-d256",
        "outlier channels of V, D = 256",
        lambda p: p.head_dim == 256,
        "doubled",
        values=_outlying,
    ),
    Narrow(
        "alike-batch-2",
        "one key many times, 2 batches",
        lambda p: p.batch == 2,
        "last-entry",
        values=_alike,
    ),
    Narrow(
        "strided-d128",
        "strided inputs, D = 128",
        lambda p: p.head_dim == 128,
        "doubled",
        values=_strided,
    ),
    Narrow(
        "strided-no-mask",
        "strided inputs, no mask",
        lambda p: not p.causal,
        "doubled",
        values=_strided,
    ),
)

CONTRACTS = (
    Narrow(
        "shifted-d256",
        "delta shifted, D = 256",
        lambda p: p.head_dim == 256,
        "doubled",
        values=lambda c: _delta("shifted", c),
    ),
    Narrow(
        "renormalized-group-5",
        "delta renormalized, groups of 5",
        lambda p: p.group == 5,
        "last-head",
        values=lambda c: _delta("renormalized", c),
    ),
    Narrow(
        "associated-no-mask",
        "delta associated, no mask",
        lambda p: not p.causal,
        "times-minus-3",
        values=lambda c: _delta("associated", c),
    ),
    Narrow(
        "stale-batch-3",
        "delta stale, 3 batches",
        lambda p: p.batch == 3,
        "last-entry",
        values=lambda c: _delta("stale", c),
    ),
    Narrow(
        "consistent-left-63",
        "delta consistent, 63 keys left",
        lambda p: p.keys % 64 == 63,
        "last-key",
        values=lambda c: _delta("consistent", c),
    ),
    Narrow(
        "zero-sum-d256",
        "the zero-sum cast at D = 256",
        lambda p: p.head_dim == 256,
        "times-minus-3",
        values=lambda c: get_contract(c.contract).ds_cast == "zero-sum",
    ),
)
"""Of kernels that serve several contracts; the others here are tried under one."""
