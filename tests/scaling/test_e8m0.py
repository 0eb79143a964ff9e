"""MXFP8's scales and codes against gfloat and ml_dtypes, which nobody here wrote."""

from __future__ import annotations

import gfloat
import ml_dtypes
import numpy as np
import pytest
from gfloat.formats import format_info_mxfp8_e4m3, format_info_ocp_e8m0

from dmverify.errors import InputError
from dmverify.spec.scaling import Tiling, get_rule, quantise

pytestmark = pytest.mark.oracle

BLOCK = 32
EVERY_EXPONENT = np.exp2(np.arange(-149, 128, dtype=np.float64))
SIGNIFICANDS = (1.0, 1.5, 1.75, np.nextafter(np.float32(1.75), np.float32(2)), 1.9921875)


def amaxes() -> np.ndarray:
    """Numbers around every boundary, all positive float32 that are finite."""
    x = (EVERY_EXPONENT[:, None] * np.array(SIGNIFICANDS, np.float64)).astype(np.float32)
    return x[np.isfinite(x) & (x > 0)]


def test_every_scale_is_a_number_of_e8m0():
    scales = get_rule("amax-e8m0").scales(amaxes())
    np.testing.assert_array_equal(
        scales, scales.astype(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    )
    codes = np.array([gfloat.encode_float(format_info_ocp_e8m0, float(s)) for s in scales])
    decoded = [gfloat.decode_float(format_info_ocp_e8m0, int(code)).fval for code in codes]
    np.testing.assert_array_equal(scales, np.array(decoded, np.float32))
    assert scales.min() == np.float32(2.0**-127)


def test_a_scale_is_the_least_under_which_nothing_saturates():
    a = amaxes().astype(np.float64)
    scales = get_rule("amax-e8m0").scales(amaxes()).astype(np.float64)
    assert (a / scales <= 448).all()
    assert ((a / scales * 2 > 448) | (scales == 2.0**-127)).all()


def round_up(emax: float, values: np.ndarray) -> float:
    """The least power of two with amax / scale <= 448, by gfloat's E8M0 and no logarithm."""
    amax = float(np.max(np.abs(values)))
    scales = (gfloat.decode_float(format_info_ocp_e8m0, code).fval for code in range(255))
    return next(s for s in scales if amax <= 448.0 * s)


def tiles(seed: int) -> np.ndarray:
    """Rows of two blocks whose sizes differ by up to 2^40, inside a block by up to 2^20."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((12, 2, BLOCK)) * np.exp2(rng.integers(-20, 1, (12, 2, BLOCK)))
    x *= np.exp2(rng.integers(-20, 21, (12, 2, 1)))
    x[0, 0, 3] = 448.0 * 2.0**-5  # an amax on the boundary, and one just beyond
    x[0, 1, 3] = np.nextafter(np.float32(448.0), np.float32(512))
    return x.reshape(12, 2 * BLOCK).astype(np.float32)


@pytest.mark.parametrize("seed", range(3))
def test_blocks_equal_gfloats(seed):
    x = tiles(seed)
    got = quantise(x, "amax-e8m0", block=Tiling(1, BLOCK)).exact()
    for row, line in enumerate(x.astype(np.float64)):
        for start in range(0, len(line), BLOCK):
            block = line[start : start + BLOCK]
            due = gfloat.quantize_block(
                format_info_mxfp8_e4m3, block, round_up, gfloat.RoundMode.TiesToEven
            )
            np.testing.assert_array_equal(got[row, start : start + BLOCK], due)


@pytest.mark.parametrize("wrong", ["down", "one-more", "row"])
def test_wrong_exponents_are_told_apart(wrong):
    """What the test above must be able to see."""
    x = tiles(0)
    got = quantise(x, "amax-e8m0", block=Tiling(1, BLOCK))
    scale = got.element_scales().astype(np.float64)
    other = {
        "down": np.where(scale > 2.0**-127, scale / 2, scale),
        "one-more": scale * 2,
        "row": np.broadcast_to(scale.max(1, keepdims=True), x.shape),
    }[wrong]
    codes = np.clip(x / other, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
    assert (codes * other != got.exact()).any()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(value):
    with pytest.raises(InputError):
        quantise(np.full((1, BLOCK), value, np.float32), "amax-e8m0", block=Tiling(1, BLOCK))
