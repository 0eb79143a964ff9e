"""float32 arithmetic against exact rationals, and the checked arguments of all instructions."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dmverify.errors import InputError
from dmverify.lab.probes import model
from dmverify.lab.probes.arith_operands import OPERATIONS, arith_operands, binade_inputs
from dmverify.spec.formats import E4M3, FP32
from dmverify.spec.machine import hopper

BITS = st.integers(0, 0xFFFFFFFF).filter(lambda b: (b >> 23) & 0xFF != 0xFF)


def value(bits):
    return np.array(bits, np.uint32).view(np.float32)


def exactly_rounded(exact, zero):
    """float32 bits of an exact rational; an exact zero takes the sign of `zero`."""
    if exact == 0:
        return int(np.float32(zero).view(np.uint32))
    return FP32.from_fraction(exact, saturate=False)


@settings(deadline=None, max_examples=400, derandomize=True)
@given(x=BITS, y=BITS, z=BITS)
@example(x=0x3F800800, y=0x3F800800, z=0xBF801000)  # cancels to the product's last bit
@example(x=0x3F800001, y=0x3F7FFFFF, z=0x33000000)  # a tie but for the product's last bit
@example(x=0x4B800000, y=0x3F000001, z=0x00000001)  # a subnormal decides the rounding
@example(x=0x1F800001, y=0x1F800001, z=0x00000001)  # a subnormal result
@example(x=0x7F7FFFFF, y=0x3F800001, z=0x73000000)  # at the edge of overflow
def test_fma_rounds_the_exact_sum_once(x, y, z):
    fx, fy, fz = (Fraction(float(value(b))) for b in (x, y, z))
    with np.errstate(all="ignore"):
        zero = float(value(x)) * float(value(y)) + float(value(z))
    want = exactly_rounded(fx * fy + fz, zero)
    assert int(hopper.fma(value(x), value(y), value(z)).view(np.uint32)) == want


def test_fma_on_adversarial_operands():
    operands = arith_operands(300)
    finite = ((operands >> np.uint32(23)) & 0xFF != 0xFF).all(axis=0)
    x, y, z = operands[:, finite].view(np.float32)
    got = hopper.fma(x, y, z).view(np.uint32)
    twice = 0
    for i in range(x.size):
        exact = Fraction(float(x[i])) * Fraction(float(y[i])) + Fraction(float(z[i]))
        with np.errstate(all="ignore"):
            double = float(x[i]) * float(y[i]) + float(z[i])
            twice += int(np.float32(double).view(np.uint32)) != int(got[i])
        assert int(got[i]) == exactly_rounded(exact, double)
    assert twice > 0, "no operand tells one rounding from two: the test shows nothing"


@pytest.mark.parametrize("name", OPERATIONS)
def test_torch_equals_numpy(name):
    operands = arith_operands(256).view(np.float32)
    want = model.bits(model.arithmetic(name, operands))
    got = model.bits(model.arithmetic(name, torch.from_numpy(operands))).numpy()
    assert np.array_equal(got.view(np.uint32), want)


@pytest.mark.parametrize("name", model.UNARY)
def test_functions_on_torch_equal_numpy(name):
    x = binade_inputs(16).view(np.float32)
    want = model.bits(model.UNARY[name](x))
    got = model.bits(model.UNARY[name](torch.from_numpy(x))).numpy()
    assert np.array_equal(got.view(want.dtype), want)


@pytest.mark.parametrize(
    "operation",
    [
        hopper.ex2,
        hopper.lg2,
        hopper.rcp,
        hopper.sqrt,
        hopper.rcp_rn,
        lambda x: hopper.add(x, x),
        lambda x: hopper.fma(x, x, x),
        lambda x: hopper.cvt(x, E4M3),
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32])
def test_another_dtype_is_a_typed_error(operation, dtype):
    with pytest.raises(InputError, match="float32"):
        operation(np.ones(3, dtype))


def test_conversion_to_another_format_is_a_typed_error():
    with pytest.raises(InputError, match="E4M3"):
        hopper.cvt(np.ones(1, np.float32), FP32)


def test_results_keep_the_shape():
    x = np.ones((2, 1, 3), np.float32)
    assert hopper.ex2(x).shape == x.shape
    assert hopper.lg2(np.float32(8)).shape == ()
    assert float(hopper.fma(x, x[:1], np.float32(1))[0, 0, 0]) == 2.0


def test_ex2_never_decreases():
    x = np.sort(binade_inputs(64).view(np.float32))
    y = hopper.ex2(x[np.isfinite(x)])
    assert bool((y[1:] >= y[:-1]).all())
    assert float(hopper.ex2(np.float32(0))) == 1.0
