"""Quantisation against its rules computed in exact rationals, element by element."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmverify.spec.formats import E4M3, E5M2, FP32, INT8
from dmverify.spec.scaling import SCALE_RULES, Tiling, fitting_exponent, quantise

FLOOR = Fraction(1, 2**100)


def fp32(value: Fraction) -> Fraction:
    """An exact number rounded once to float32."""
    return FP32.to_fraction(FP32.from_fraction(value))


def largest_fitting_power(a: Fraction, limit: int = 100, most: int = 448) -> Fraction:
    power = Fraction(2) ** limit
    while a * power > most:
        power /= 2
    return power


def code_of(value: Fraction, element, saturate: bool) -> int:
    if element is INT8:
        return max(-127, min(127, round(value)))
    return element.from_fraction(value, saturate=saturate)


def definition(x: list[float], rule: str, element=E4M3) -> tuple[Fraction, list[int]]:
    """Scale and codes of one tile, straight from the table of the rules."""
    numbers = [Fraction(float(v)) for v in x]
    a, most = max(abs(v) for v in numbers), int(element.max_finite)
    if a == 0:
        return Fraction(1), [0] * len(numbers)
    if rule == "unit":
        return Fraction(1), [code_of(v, element, True) for v in numbers]
    if rule == "amax":
        s = fp32(a / most)
        return s, [code_of(fp32(v / s), element, False) for v in numbers]
    if rule == "given":
        s = fp32(max(a, FLOOR) / most)
        return s, [code_of(fp32(v / s), element, True) for v in numbers]
    if rule == "amax-e8m0":
        factor = largest_fitting_power(a, 127, most)
        return 1 / factor, [code_of(fp32(v * factor), element, True) for v in numbers]
    a = max(a, FLOOR)
    if rule == "amax-clamped":
        s, factor = fp32(a / most), fp32(most / a)
    else:
        factor = largest_fitting_power(a, most=most)
        s = 1 / factor
    return s, [code_of(fp32(v * factor), element, True) for v in numbers]


def tile(rng: np.random.Generator, exponent: int) -> np.ndarray:
    x = rng.standard_normal(24) * np.exp2(rng.integers(-12, 1, 24) + exponent)
    return x.astype(np.float32)


@pytest.mark.parametrize("element", [E4M3, E5M2, INT8], ids=lambda element: element.name)
@pytest.mark.parametrize("rule", list(SCALE_RULES))
@pytest.mark.parametrize("exponent", [0, 3, -20, -90, -99, -103, -125, 90])
def test_scales_and_codes_follow_the_definition(rule, exponent, element):
    rng = np.random.default_rng(exponent + 200)
    for _ in range(12):
        x = tile(rng, exponent)
        scale, codes = definition(x.tolist(), rule, element)
        got = quantise(x.reshape(4, 6), rule, block=None, element=element)
        assert Fraction(float(got.scales[0, 0])) == scale
        signless = np.where(x == 0, 0, got.codes.reshape(-1))  # rationals have no -0
        assert signless.tolist() == [int(c) if v else 0 for c, v in zip(codes, x, strict=True)]


def midpoint_tiles() -> np.ndarray:
    """(300, 127): in each row an amax and products of its scale with the midpoints of E4M3."""
    values = np.array([float(E4M3.to_fraction(code)) for code in range(E4M3.max_code + 1)])
    midpoints = ((values[1:] + values[:-1]) / 2).astype(np.float32)
    a = np.random.default_rng(11).uniform(1, 2, (300, 1)).astype(np.float32)
    return np.concatenate([a, midpoints * (a / np.float32(448))], axis=1)


def test_codes_next_to_midpoints_follow_the_definition():
    x = midpoint_tiles()
    for rule in SCALE_RULES:
        codes = quantise(x, rule, block=1).codes
        for row in range(0, 300, 30):
            assert codes[row].tolist() == definition(x[row].tolist(), rule)[1]


def test_a_product_with_the_reciprocal_is_told_from_a_division():
    """The fault that the test above must be able to see."""
    x = midpoint_tiles()
    s = x[:, :1] / np.float32(448)
    got = quantise(x, "amax", block=1).codes
    assert (got != E4M3.encode(x * (np.float32(1) / s), saturate=False)).any(axis=1)[::30].any()


@given(st.integers(1, 0x7F7FFFFF))
def test_fitting_exponent_is_the_largest_that_fits(bits):
    a = np.array([bits], dtype=np.uint32).view(np.float32)
    exact, k = Fraction(float(a[0])), int(fitting_exponent(a)[0])
    assert exact * Fraction(2) ** k <= 448
    assert k == 100 or exact * Fraction(2) ** (k + 1) > 448


def test_exact_and_fractions_are_code_times_scale():
    x = np.random.default_rng(3).standard_normal((2, 5, 4)).astype(np.float32)
    got = quantise(x, "amax", block=Tiling(2, 3))
    for index in np.ndindex(*x.shape):
        batch, row, column = index
        scale = Fraction(float(got.scales[batch, row // 2, column // 3]))
        want = E4M3.to_fraction(int(got.codes[index])) * scale
        assert got.fractions()[index] == want == Fraction(float(got.exact()[index]))
        assert Fraction(float(got.dequantised()[index])) == fp32(want)
