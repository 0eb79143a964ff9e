"""Probe inputs where a codec can go wrong, for every format."""

from __future__ import annotations

import numpy as np
import pytest

from dmverify.spec.formats import FORMATS, FloatFormat

SPECIALS = np.array(
    [0, 0x7F800000, 0x7FC00000, 0x7FFFFFFF, 0x7F800001, 1, 0x007FFFFF, 0x7F7FFFFF], dtype=np.uint32
)
TC14_STRIDE = (
    251  # every TC14 code would take minutes in the oracles; a prime stride meets all fields
)


def magnitudes(fmt: FloatFormat) -> np.ndarray:
    """Finite values of a format in ascending order, from the definition in exact rationals."""
    stride = {"TC14": TC14_STRIDE, "FP32": 100_003, "BF16": 1}.get(fmt.name, 1)
    codes = range(0, fmt.max_code + 1, stride)
    return np.array([float(fmt.to_fraction(code)) for code in codes])


def probe_values(fmt: FloatFormat) -> np.ndarray:
    """float32 inputs: every value, every midpoint, the neighbours of both, specials, both signs."""
    values = magnitudes(fmt)
    with np.errstate(over="ignore"):  # the midpoint above BF16's largest value is not finite
        step = np.spacing(values.astype(np.float32)).astype(np.float64)
        quantum = np.maximum(step * 2.0 ** (23 - fmt.mantissa_bits), fmt.min_subnormal)
        points = np.concatenate([values, values + quantum / 2]).astype(np.float32)
    points = np.concatenate(
        [points, np.nextafter(points, np.float32(0)), np.nextafter(points, np.float32(np.inf))]
    )
    noise = np.random.default_rng(7).integers(0, 1 << 32, 50_000, dtype=np.uint32)
    bits = np.concatenate([points.view(np.uint32), SPECIALS])
    return np.concatenate([bits, bits | 0x80000000, noise]).view(np.float32)


@pytest.fixture(params=FORMATS.values(), ids=list(FORMATS), scope="session")
def fmt(request: pytest.FixtureRequest) -> FloatFormat:
    return request.param


@pytest.fixture(scope="session")
def probes(fmt: FloatFormat) -> np.ndarray:
    return probe_values(fmt)


@pytest.fixture(scope="session")
def probe_values_of():
    return probe_values
