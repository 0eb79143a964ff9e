"""Checks of what cancels: the key columns of dK.

Exact rows of dS sum to zero, so each key channel of dK sums to zero over the keys; a kernel's sums
are off by what its rows are off. Sums are formed in float64 from the returned dK, with numpy's
float64 error added to the bound.
"""

from __future__ import annotations

import numpy as np

from dmverify.conformance.checks.bands import judge_band
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.verdict import Finding
from dmverify.spec.enclosure import Band


def column_sum_check(check: str, evidence: Evidence) -> Finding:
    """The sum of dK over the keys, per key head and channel, against the sum of its bands."""
    band, dk = evidence.bands["dk"], evidence.outputs.dk
    totals = dk.astype(np.float64).sum(axis=1)
    single = totals.astype(np.float32)
    return judge_band(check, evidence.case.id, single, _summed(band, dk.shape[1]))


def _summed(band: Band, keys: int) -> Band:
    """Bounds add up over the keys; one float32 rounding and float64's error come on top."""
    mid = band.mid.sum(axis=1)
    slack = np.abs(mid) * 2.0**-24 + (np.abs(band.mid) + band.above).sum(axis=1) * keys * 2.0**-52
    below, above = (side.sum(axis=1) + slack for side in (band.below, band.above))
    may, must = (np.asarray(f.any(axis=1)) for f in (band.may_nan, band.must_nan))
    lo = np.where(may, -np.inf, mid - below)
    hi = np.where(may, np.inf, mid + above)
    return Band(lo, hi, mid, below, above, must, may)
