"""Where an output lies outside of its band: which rows and channels, and what stands there."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmverify.conformance.checks.margins import compare
from dmverify.spec.case import F32
from dmverify.spec.enclosure import Band

SHOWN = 8


def outside(band: Band, got: F32) -> dict[str, Any]:
    """What is outside, or nothing.

    Args:
        band: Band of one output.
        got: The same output, (B, N, H, D) or (B, H, N).

    Returns:
        ``elements``; the first ``rows`` and ``batches and heads``; ``channels`` as ranges; how many
        are ``NaN`` and ``zero``.
    """
    wrong = compare(got, band).margin > 1
    if not wrong.any():
        return {}
    at = np.argwhere(wrong)
    rows = np.unique(at[:, 1 if wrong.ndim == 4 else 2])
    found: dict[str, Any] = {
        "elements": len(at),
        "rows": [int(row) for row in rows[:SHOWN]],
        "number of rows": len(rows),
        "NaN": int(np.isnan(got[wrong]).sum()),
        "zero": int((got[wrong] == 0).sum()),
    }
    heads = np.unique(at[:, [0, 2] if wrong.ndim == 4 else [0, 1]], axis=0)
    found["batches and heads"] = heads[:SHOWN].tolist()
    if wrong.ndim == 4:
        # A number that happens to be near 0 may be inside, so zeros of the same rows count too.
        seen = wrong | (got == 0) & wrong.any(3, keepdims=True)
        found["channels"] = ranges(np.flatnonzero(seen.any((0, 1, 2))))
    return found


def ranges(numbers: np.typing.NDArray[np.int64]) -> str:
    """Ascending whole numbers as ranges.

    >>> ranges(np.array([0, 1, 2, 7, 9, 10]))
    '0-2, 7, 9-10'
    """
    parts = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    ends = ((int(part[0]), int(part[-1])) for part in parts if len(part))
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ends)
