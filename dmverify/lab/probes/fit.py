"""Fits the coefficients of the special function unit to the exhaustive outputs of one binade.

`dmverify lab probe-fit` on a Hopper GPU derives all of `mufu_tables` again and
says whether they are the same. For each segment, with S and the bias of `mufu_interpolator`:

1. An output y says that F lies in [lo, up), the interval that is cut to y.
2. Least squares through the middles of the intervals on 1, x and S, rounded to integers: first c2,
   then c1 with c2 fixed. The errors are spread evenly, so 2^16 points leave no doubt.
3. c0 is the one integer that keeps every F in its interval; there is none if the model is wrong.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dmverify.errors import RecordingError
from dmverify.lab.probes.sweeps import outputs
from dmverify.spec.machine.hopper.mufu_interpolator import (
    EX2_TABLE,
    FRACTION_BITS,
    LG2_TABLE,
    RCP_TABLE,
    SQUARER_BITS,
    UNIT_BITS,
    Interpolation,
    truncated_square,
)
from dmverify.spec.machine.hopper.mufu_tables import Rows

Int = NDArray[np.int64]
_ONE = 0x3F800000
_HIDDEN = 1 << FRACTION_BITS


def fit(table: Interpolation, lo: Int, *, up: Int) -> Rows:
    """Coefficients that put F into [lo, up) for all 2^23 fractions.

    Args:
        table: Widths and bias; its rows are not read.
        lo: Lower bounds of F, (2^23,).
        up: Upper bounds of F.

    Raises:
        RecordingError: No coefficients do.
    """
    count = 1 << table.offset_bits
    x = np.arange(count)
    square = truncated_square(x << SQUARER_BITS - table.offset_bits) << table.c2_shift
    segments = zip(lo.reshape(-1, count), up.reshape(-1, count), strict=True)
    return tuple(_fit_segment(table, x, square, low, high) for low, high in segments)


def _fit_segment(
    table: Interpolation, x: Int, square: Int, lo: Int, up: Int
) -> tuple[int, int, int]:
    middle = (lo + up) / 2
    c2 = round(float(_least_squares([x, square], middle)[1]))
    c1 = round(float(_least_squares([x], middle - c2 * square)[0]))
    rest = c1 * x + c2 * square + table.bias
    lowest, limit = int((lo - rest).max()), int((up - rest).min())
    c0 = -(-lowest >> table.c0_shift)
    if c0 << table.c0_shift >= limit:
        raise RecordingError(
            f"bounds {lowest} to {limit} of c0 with c1 = {c1}, c2 = {c2}",
            rule="one integer c0 fits all outputs of a segment",
            fix="the outputs are of another unit, or the squarer or the bias is wrong",
        )
    return c0, c1, c2


def _least_squares(columns: list[Int], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Coefficients of `columns` beside a constant, from the centred normal equations."""
    design = np.stack([column - column.mean() for column in columns], axis=1)
    gram: NDArray[np.float64] = design.T @ design
    return np.linalg.solve(gram, design.T @ (target - target.mean()))


def _ordered(bits: Int, first: int) -> tuple[Int, Int]:
    """Bounds from outputs of one binade whose significands start at bits `first`."""
    significand = bits - first + _HIDDEN
    return significand << UNIT_BITS, (significand + 1) << UNIT_BITS


def _lg2_bounds(bits: Int) -> tuple[Int, Int]:
    """Bounds from lg2 of [1, 2): float32 truncation, at least 2^-36; lg2(1) = 0 says nothing."""
    value = bits.astype(np.int32).view(np.float32).astype(np.float64)
    unit = np.spacing(bits.astype(np.int32).view(np.float32)).astype(np.float64)
    low = np.ldexp(value, 38).astype(np.int64)
    high = low + np.ldexp(np.maximum(unit, 2.0**-36), 38).astype(np.int64)
    high[0] = 1 << 16
    return low, high


def fit_all() -> dict[str, bool]:
    """Fits the three functions on this GPU; whether the shipped tables came out."""
    bits = {
        name: outputs(f"{name}_ftz", _ONE, _HIDDEN).cpu().numpy().astype(np.int64)
        for name in ("ex2", "lg2", "rcp")
    }
    bounds = {
        "ex2": (EX2_TABLE, _ordered(bits["ex2"], 0x40000000)),
        "lg2": (LG2_TABLE, _lg2_bounds(bits["lg2"])),
        "rcp": (RCP_TABLE, _ordered(bits["rcp"], 0x3F000000)),
    }
    bounds["rcp"][1][1][0] += 1 << UNIT_BITS  # rcp(1) = 1 is cut to twice the unit of the others
    same = {}
    for name, (table, (lo, up)) in bounds.items():
        same[name] = fit(replace(table, rows=()), lo, up=up) == table.rows
    return same
