"""Where scales go wrong: the rounding of amax / 448, tiny amax, zeros, NaN and infinity."""

from __future__ import annotations

import numpy as np
import pytest

from dmverify.errors import ContractError, InputError, UnknownNameError
from dmverify.spec.scaling import SCALE_RULES, Tiling, fitting_exponent, get_rule, quantise

SMALLEST = 2.0**-149


def one(x: list[float], rule: str):
    return quantise(np.array([x], dtype=np.float32), rule, block=None)


def test_the_largest_quotient_of_every_amax_mantissa():
    """Exhaustive over one binade; powers of two scale exactly, so it stands for all normal ones."""
    a = np.arange(0x3F800000, 0x40000000, dtype=np.uint32).view(np.float32)
    quotient = a / (a / np.float32(448))
    assert quotient.max() == np.float32(448 + 2.0**-15)
    above = float((quotient > 448).mean())
    assert 0.07 < above < 0.085  # so a cast that saturates or not is told apart by 448 itself
    assert quotient.min() > 448 - 2.0**-14


@pytest.mark.parametrize(
    ("a", "scale"),
    [
        (7 * 2.0**-144, 0.0),
        (7 * 2.0**-144 + SMALLEST, SMALLEST),
        (1.75 * 2.0**-118, 2.0**-126),
        (671 * SMALLEST, SMALLEST),
        (672 * SMALLEST, 2 * SMALLEST),
    ],
)
def test_tiny_amax_table_of_the_plain_rule(a, scale):
    assert float(one([a, 0.0], "amax").scales[0, 0]) == scale


def test_the_plain_rule_overflows_to_nan_on_tiny_amax_and_the_clamped_rule_does_not():
    tiny = [671 * SMALLEST, -SMALLEST]
    assert one(tiny, "amax").codes.tolist() == [[0x7F, 0xB8]]
    assert one([SMALLEST, 0.0], "amax").codes.tolist() == [[0x7F, 0x7F]]  # 1 / 0 and 0 / 0
    for rule in ("amax-clamped", "amax-power-of-two"):
        got = one(tiny, rule)
        assert got.codes.tolist() == [[0x00, 0x80]]
        assert float(got.scales[0, 0]) >= 2.0**-110


@pytest.mark.parametrize("rule", list(SCALE_RULES))
def test_a_zero_tile_has_scale_one_and_keeps_its_signs(rule):
    got = one([0.0, -0.0], rule)
    assert float(got.scales[0, 0]) == 1.0
    assert got.codes.tolist() == [[0x00, 0x80]]


@pytest.mark.parametrize("rule", list(SCALE_RULES))
def test_a_zero_tile_leaves_its_neighbours_alone(rule):
    x = np.random.default_rng(5).standard_normal((192, 32)).astype(np.float32)
    x[64:128] = 0
    whole = quantise(x, rule, block=64)
    for start in (0, 64, 128):
        part = quantise(x[start : start + 64], rule, block=64)
        assert np.array_equal(part.codes, whole.codes[start : start + 64])
        assert part.scales[0, 0] == whole.scales[start // 64, 0]


@pytest.mark.parametrize("rule", ["amax", "amax-clamped"])
def test_nan_and_infinity_stay_in_their_tile(rule):
    x = np.ones((4, 3), dtype=np.float32)
    x[0, 1], x[2, 0] = np.nan, np.inf
    got = quantise(x, rule, block=1)
    assert (got.codes[0] == 0x7F).all()
    assert np.isnan(got.scales[0, 0])
    assert got.codes[2].tolist() == [0x7F, 0, 0]
    assert np.isinf(got.scales[2, 0])
    assert np.isfinite(got.dequantised()[[1, 3]]).all()
    with pytest.raises(InputError, match="finite"):
        got.fractions()


def test_wrong_inputs_name_the_rule():
    x = np.zeros((2, 2), dtype=np.float32)
    with pytest.raises(InputError, match="takes finite numbers"):
        quantise(x + np.float32(np.inf), "amax-power-of-two", block=1)
    with pytest.raises(InputError, match="rounded twice"):
        quantise(x.astype(np.float64), "amax", block=1)
    with pytest.raises(InputError, match="matrix"):
        quantise(x[0], "amax", block=1)
    with pytest.raises(InputError, match="at least one row"):
        quantise(x, "amax", block=0)
    with pytest.raises(UnknownNameError, match="amax-clamped"):
        get_rule("max")
    with pytest.raises(ContractError, match="spans all columns"):
        quantise(x, "amax", block=Tiling(1, 1)).row_scales()
    for bad in (-x - 1, x + np.float32(np.nan), x.astype(np.float64)):
        with pytest.raises(InputError, match="not negative"):
            fitting_exponent(bad)
