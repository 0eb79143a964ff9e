"""The codec against gfloat and ml_dtypes, which nobody here wrote. float32 inputs only: ml_dtypes
rounds a float64 twice."""

from __future__ import annotations

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import pytest

from dmverify.spec.formats import FORMATS, FloatFormat

pytestmark = pytest.mark.oracle

GFLOAT = {
    "E4M3": gfloat.formats.format_info_ocp_e4m3,
    "E5M2": gfloat.formats.format_info_ocp_e5m2,
    "FP16": gfloat.formats.format_info_binary16,
    "BF16": gfloat.formats.format_info_bfloat16,
    "FP32": gfloat.formats.format_info_binary32,
    "TC14": gfloat.FormatInfo(
        "tc14",
        22,
        14,
        bias=127,
        has_nz=True,
        domain=gfloat.Domain.Extended,
        num_high_nans=2**13 - 1,
        has_subnormals=True,
        is_signed=True,
        is_twos_complement=False,
    ),
}
ML_DTYPES = {
    "E4M3": ml_dtypes.float8_e4m3fn,
    "E5M2": ml_dtypes.float8_e5m2,
    "FP16": np.float16,
    "BF16": ml_dtypes.bfloat16,
}
MODES = {"nearest": gfloat.RoundMode.TiesToEven, "zero": gfloat.RoundMode.TowardZero}


def mismatches(got: np.ndarray, want: np.ndarray) -> int:
    """Count elements that differ in bits, all NaNs being equal."""
    same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    return int((~same).sum())


def gfloat_values(fmt: FloatFormat, x: np.ndarray, rounding: str, saturate: bool) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        wide = x.astype(np.float64)  # exact, so gfloat rounds once
        rounded = gfloat.round_ndarray(GFLOAT[fmt.name], wide, MODES[rounding], sat=saturate)
        return rounded.astype(np.float32)


@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("rounding", ["nearest", "zero"])
def test_rounding_equals_gfloat(fmt, probes, rounding, saturate):
    got = fmt.decode(fmt.encode(probes, rounding=rounding, saturate=saturate))
    assert mismatches(got, gfloat_values(fmt, probes, rounding, saturate)) == 0


@pytest.mark.parametrize("name", ["E4M3", "E5M2", "FP16", "BF16"])
def test_codes_equal_gfloat(name):
    fmt = FORMATS[name]
    codes = np.arange(2 * fmt.sign_code, dtype=fmt.code_dtype)
    with np.errstate(invalid="ignore"):
        values = gfloat.decode_ndarray(GFLOAT[name], codes.astype(np.int64)).astype(np.float32)
    assert mismatches(fmt.decode(codes), values) == 0
    numbers = ~np.isnan(values)
    encoded = gfloat.encode_ndarray(GFLOAT[name], values[numbers].astype(np.float64))
    assert np.array_equal(encoded.astype(codes.dtype), codes[numbers])


@pytest.mark.parametrize("name", list(ML_DTYPES))
def test_all_codes_and_unsaturated_nearest_equal_ml_dtypes(name, probe_values_of):
    fmt = FORMATS[name]
    codes = np.arange(2 * fmt.sign_code, dtype=fmt.code_dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        theirs = codes.view(ML_DTYPES[name]).astype(np.float32)
        assert mismatches(fmt.decode(codes), theirs) == 0
        x = probe_values_of(fmt)
        rounded = x.astype(ML_DTYPES[name])
    got = fmt.encode(x, saturate=False)
    want = rounded.view(fmt.code_dtype)
    nan = np.isnan(rounded.astype(np.float32))
    assert np.array_equal(got[~nan], want[~nan])
    assert np.array_equal(np.isnan(fmt.decode(got)), nan)


def ties_away(fmt: FloatFormat, x: np.ndarray) -> np.ndarray:
    """A wrong codec: ties away from zero."""
    half = np.uint32(1 << (22 - fmt.mantissa_bits))
    return fmt.round((x.view(np.uint32) + half).view(np.float32), rounding="zero")


def torch_like(fmt: FloatFormat, x: np.ndarray) -> np.ndarray:
    """A wrong codec where saturation is asked for: NaN above the last midpoint."""
    return fmt.round(x, saturate=False)


@pytest.mark.parametrize("wrong", [ties_away, torch_like])
def test_the_comparison_rejects_wrong_codecs(wrong, probe_values_of):
    fmt = FORMATS["E4M3"]
    x = probe_values_of(fmt)
    assert mismatches(wrong(fmt, x), gfloat_values(fmt, x, "nearest", True)) > 0


def test_the_probes_tell_one_rounding_from_two(probe_values_of):
    fmt = FORMATS["E4M3"]
    x = probe_values_of(fmt)
    twice = fmt.round(FORMATS["BF16"].round(x))
    assert mismatches(twice, gfloat_values(fmt, x, "nearest", True)) > 0
