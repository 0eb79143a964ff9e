"""The margin of an error: how much of what is allowed it takes; at most 1 is within.

    margin = |error| / bound,    0 / 0 = 0,    x / 0 = infinity,    NaN = infinity

It is the one rule for elements against bands, sums and rows against bounds, terms of a ledger, and
searches for a violated bound.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dmverify.spec.case import F64


def margin_of(error: npt.ArrayLike, bound: npt.ArrayLike) -> F64:
    """Margins element by element; the shapes of both broadcast.

    >>> margin_of([-1.0, 0.0, -1.0, float("nan")], [4.0, 0.0, 0.0, 1.0]).tolist()
    [0.25, 0.0, inf, inf]
    """
    size = np.abs(np.asarray(error, np.float64))
    with np.errstate(all="ignore"):
        quotient = np.asarray(size / np.asarray(bound, np.float64))
    np.copyto(quotient, 0.0, where=size == 0)  # in place, as it may be of a large tensor
    np.copyto(quotient, np.inf, where=np.isnan(quotient))
    return quotient
