"""The fit of the special function unit finds planted coefficients and rejects what has none."""

from dataclasses import replace

import numpy as np
import pytest

from dmverify.errors import RecordingError
from dmverify.lab.probes.fit import _fit_segment, _lg2_bounds
from dmverify.spec.machine import hopper
from dmverify.spec.machine.hopper.mufu_interpolator import (
    EX2_TABLE,
    LG2_TABLE,
    RCP_TABLE,
    UNIT_BITS,
    interpolate,
    truncated_square,
)


def bounds(table, segment):
    """Interval of F that the result's last place leaves, for one segment."""
    count = 1 << table.offset_bits
    fraction = np.arange(count) + segment * count
    result = interpolate(table, fraction) >> UNIT_BITS
    return result << UNIT_BITS, (result + 1) << UNIT_BITS


def fitted(table, lo, up):
    x = np.arange(1 << table.offset_bits)
    square = truncated_square(x << 17 - table.offset_bits) << table.c2_shift
    return _fit_segment(table, x, square, lo, up)


@pytest.mark.parametrize("table", [EX2_TABLE, LG2_TABLE, RCP_TABLE], ids=["ex2", "lg2", "rcp"])
@pytest.mark.parametrize("segment", [0, 21, 63])
def test_planted_coefficients_are_found(table, segment):
    c0, c1, c2 = table.rows[segment]
    planted = replace(table, rows=((c0 + 5, c1 - 7, c2 + 3),) * len(table.rows))
    lo, up = bounds(planted, 0)
    assert fitted(table, lo, up) == planted.rows[0]


def test_one_wrong_output_has_no_fit():
    lo, up = bounds(EX2_TABLE, 10)
    lo[4321] += 3 << UNIT_BITS
    up[4321] += 3 << UNIT_BITS
    with pytest.raises(RecordingError, match="one integer"):
        fitted(EX2_TABLE, lo, up)


def test_another_squarer_has_no_fit():
    table = EX2_TABLE
    x = np.arange(1 << 17)
    lo, up = bounds(table, 10)
    with pytest.raises(RecordingError):
        _fit_segment(table, x, x * x >> 19, lo, up)


def test_bounds_from_outputs_contain_the_interpolated_value():
    bits = 0x3F800000 + np.arange(1 << 17)
    outputs = hopper.lg2(bits.astype(np.uint32).view(np.float32)).view(np.uint32).astype(np.int64)
    low, high = _lg2_bounds(outputs)
    exact = interpolate(LG2_TABLE, np.arange(1 << 17))
    assert bool(((low <= exact) & (exact < high)).all())
