"""Where failed elements lie: their span along every axis."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dmverify.conformance.pattern import AXES, Pattern, Span

Flags = npt.NDArray[np.bool_]


def hull(output: str, failed: Flags) -> Pattern:
    """The pattern of some elements by their places alone.

    Args:
        output: Name of the output: a key of ``AXES``, with more behind a comma, or another, whose
            axes then have no names.
        failed: Which elements failed, in the output's shape; at least one.
    """
    names = AXES.get(output.partition(",")[0], ())
    if len(names) != failed.ndim:
        names = tuple(f"axis {i}" for i in range(failed.ndim))
    spans = tuple(_span(name, failed, axis) for axis, name in enumerate(names))
    return Pattern(output, int(failed.sum()), failed.size, spans)


def _span(name: str, failed: Flags, axis: int) -> Span:
    others = tuple(i for i in range(failed.ndim) if i != axis)
    at = np.flatnonzero(failed.any(axis=others))
    steps = np.unique(np.diff(at))
    step = int(steps[0]) if len(steps) == 1 else int(not len(steps))
    return Span(name, int(at[0]), int(at[-1]), len(at), failed.shape[axis], step)
