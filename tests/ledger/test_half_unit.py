"""The last carry of a zero-sum chain against every code, and a bound that is too small."""

import numpy as np

from dmverify.spec.formats import E4M3
from dmverify.spec.ledger.bounds.cast import half_unit

CODES = E4M3.decode(np.arange(0x7F, dtype=np.uint8)).astype(np.float64)


def worst_errors():
    """The farthest float32 numbers that round to each code, from below and from above."""
    above = np.append((CODES[1:] + CODES[:-1]) / 2, 464.0).astype(np.float32)
    below = np.append(np.float32(0), above[:-1])
    inside = np.nextafter(below, np.float32(1000)), np.nextafter(above, np.float32(0))
    t = np.stack([below, above, *inside])
    same = E4M3.round(t, saturate=True) == CODES
    return np.where(same, np.abs(t - CODES), 0.0).max(0)


def test_half_a_unit_holds_every_code_and_is_attained():
    share = []
    for scale in (1.0, 2.0**-30, float(np.float32(1 / 3))):
        bound = half_unit(CODES * scale, np.full_like(CODES, scale)) / scale
        share.append(worst_errors() / bound)
        assert share[-1].max() <= 1
        assert (share[-1] > 0.999).all()
    assert (np.stack(share) / 0.95 > 1).any()  # a bound of 0.95 of it fails


def test_a_saturated_end_may_be_past_16():
    top = half_unit(np.array([448.0]), np.array([1.0]))[0]
    assert 16 + 16 * 2**-15 <= top <= 16.001
