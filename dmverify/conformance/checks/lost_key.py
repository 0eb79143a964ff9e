"""Whether LSE is what it would be if a query had not seen a key: the last one, or its own last.

    exp(LSE) = sum_j exp(s_j), so that without key j    LSE' = LSE + log(1 - exp(s_j - LSE))

It takes one dot a query, of the operands as the contract casts them. A cache that is read one entry
short, or a mask that is one key off, does this; in decoding nothing else tells them from a scale
that is a little wrong. Not covered: other keys, and keys of so little weight that the bound of LSE
has room for them.
"""

from __future__ import annotations

import numpy as np

from dmverify.conformance.pattern import Trait
from dmverify.spec.attention.operands import Prepared, prepare
from dmverify.spec.case import F32, F64, Case
from dmverify.spec.contracts import get_contract
from dmverify.spec.enclosure import Band

KIND = "without-key"
SHARE = 0.9  # of the failed rows
NEAR = 2.0**-6  # of what the key takes from LSE
FINE = 2.0**-3  # of what orders may do to it at worst: what they do is far less
NAMES = ("the last key", "its last key")


def lost_key(case: Case, got: F32, band: Band, failed: np.ndarray) -> Trait | None:
    """The key without which failed LSEs are as they are, if it is one of ``NAMES``.

    Args:
        case: The case.
        got: LSE as returned, (B, H, Nq).
        band: What is allowed.
        failed: Which are outside, (B, H, Nq).
    """
    seen = case.problem.mask()
    if not all(np.isfinite(x).all() for _, x in case.inputs.items()) or not seen.size:
        return None
    with np.errstate(all="ignore"):
        prepared = prepare(get_contract(case.contract), case.problem, case.inputs, cast=True)
        own = seen.shape[1] - 1 - np.argmax(seen[:, ::-1], axis=1)
        last = np.full_like(own, seen.shape[1] - 1)
        for name, keys in zip(NAMES, (last, own), strict=True):
            sees = np.take_along_axis(seen, keys[:, None], axis=1)[:, 0]
            share = _share(_logits(prepared, keys), got, band, failed & sees)
            if share * (failed & sees).sum() >= SHARE * failed.sum():
                return Trait(KIND, share, name=name)
    return None


def _share(logits: F64, got: F32, band: Band, failed: np.ndarray) -> float:
    """Of the failed rows, how many are what is due without the keys of these logits."""
    if not failed.any():
        return 0.0
    due, room = band.mid[failed], np.maximum(band.below, band.above)[failed]
    taken = np.log1p(-np.exp(logits[failed] - due))  # NaN where the key outweighs all
    near = np.abs(got[failed] - (due + taken)) <= FINE * room - NEAR * taken
    return float((near & (-taken > room)).mean())


def _logits(prepared: Prepared, keys: np.ndarray) -> F64:
    """The logit of one key a query, (B, H, Nq), with the part of the keys' mean."""
    problem = prepared.problem
    tensors = (prepared.tensors[name] for name in ("q", "k"))
    q, k = (codes.astype(np.float64) * scale for codes, scale in tensors)
    k = k[:, :, keys].repeat(problem.group, axis=1)
    mean = prepared.k_mean.astype(np.float64).repeat(problem.group, axis=1)
    rows = slice(0, problem.queries)
    dots = (q[:, :, rows] * k).sum(-1) + (prepared.q_input[:, :, rows] * mean).sum(-1)
    return np.asarray(abs(problem.scale) * dots)
