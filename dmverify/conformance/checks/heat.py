"""How far outside its bounds an output is, over its tokens and channels, small enough to draw."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dmverify.conformance.pattern import AXES, Heat
from dmverify.spec.case import F64

MOST = 32  # cells along an axis
LAST_TWO = (1, 2)  # axes that are drawn of (batch, head, query)
DRAWN = {4: (1, 3), 3: LAST_TWO}
"""By number of axes, the two that are drawn: tokens and channels, heads and queries."""


def heat(output: str, margin: F64) -> Heat | None:
    """The margins around the worst element of an output.

    Args:
        output: Its name, a key of ``AXES``.
        margin: Margin of every element, (B, N, H, D) or (B, H, N).

    Returns:
        The largest margin of each of at most 32 x 32 cells; None for an output of other axes.
    """
    names, drawn = AXES.get(output, ()), DRAWN.get(margin.ndim)
    if drawn is None or len(names) != margin.ndim:
        return None
    worst = np.unravel_index(int(np.argmax(margin)), margin.shape)
    others = [axis for axis in range(margin.ndim) if axis not in drawn]
    place = tuple(slice(None) if axis in drawn else int(worst[axis]) for axis in range(margin.ndim))
    at = ", ".join(f"{names[axis]} {int(worst[axis])}" for axis in others)
    part = margin[place]
    axes = names[drawn[0]], names[drawn[1]]
    return Heat(at, axes, (part.shape[0], part.shape[1]), _cells(part))


def _cells(part: F64) -> tuple[tuple[float, ...], ...]:
    rows, columns = (_starts(size) for size in part.shape)
    most = np.maximum.reduceat(np.maximum.reduceat(part, rows, axis=0), columns, axis=1)
    return tuple(tuple(float(x) for x in row) for row in most)


def _starts(size: int) -> npt.NDArray[np.intp]:
    width = -(-size // MOST)
    return np.arange(0, size, width, dtype=np.intp)
