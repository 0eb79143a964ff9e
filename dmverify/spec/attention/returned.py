"""The backward as a function of what it is called with: O and LSE as the forward returned them.

A kernel's backward is a call of its own. Its delta is formed from the O that it is given, and P is
exp(s - LSE) with the LSE that it is given. So once a kernel has answered, its gradients can be
judged by those numbers instead of all the ones that its forward might have returned: the same steps
with one number where there was a set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dmverify.spec.attention.operands import placed
from dmverify.spec.attention.state import ForwardPass
from dmverify.spec.case import F32
from dmverify.spec.namespace import Array


def returned(fwd: ForwardPass, given: Mapping[str, F32], at: tuple[Any, Any]) -> ForwardPass:
    """The forward's state with the O and LSE that were returned.

    Args:
        fwd: What the steps give.
        given: ``o`` (B, N, H, D) and ``lse`` (B, H, N), as stored.
        at: Batch and query head, or arrays of them.
    """
    batch, head = at
    place, rows = placed(fwd.o.a), len(fwd.live)
    o, lse = given["o"][batch, :, head], given["lse"][batch, head]
    usable = np.where(np.isinf(lse), np.float32(0), lse)  # of rows that see no key and have no P
    reference = place(_padded(usable[..., None], rows))
    ones = fwd.l.of(1.0, (rows, 1))
    return replace(fwd, o=place(_padded(o, rows)), reference=reference, l=ones, e=None)


def _padded(x: F32, rows: int) -> Array:
    return np.pad(x, (*[(0, 0)] * (x.ndim - 2), (0, rows - x.shape[-2]), (0, 0)))
