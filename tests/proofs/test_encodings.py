"""The encodings and the concrete arithmetic of the proofs against codes written by others."""

from fractions import Fraction

import numpy as np
import pytest
import z3
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from dmverify.proofs import exact, gaps, softmax
from dmverify.proofs.encode import bf16_bits, bv, e4m3_bits, nearest_even, rat, rounds_e4m3
from dmverify.proofs.products import aligned, exponent, significand
from dmverify.spec.formats import BF16, E4M3, E5M2
from dmverify.spec.machine import hopper

F = Fraction
EDGES = [
    0.0,
    2.0**-10,
    3 * 2.0**-10,
    2.0**-6,
    1.0625,
    1.1875,
    15.5,
    432.0,
    440.0,
    448.0,
    464.0,
    465.0,
]
FLOATS = st.floats(width=32, min_value=-500, max_value=500) | st.sampled_from(EDGES)


def bits_of(x):
    return int(np.array([x], np.float32).view(np.uint32)[0])


def evaluate(expression):
    return z3.simplify(expression).as_long()


def spec_e4m3(x, *, saturate=True):
    code = E4M3.encode(np.array([x], np.float32), saturate=saturate)
    return F(float(E4M3.decode(code)[0]))


@given(FLOATS)
def test_e4m3_roundings_agree(x):
    expected = spec_e4m3(x)
    assert exact.round_e4m3(F(x)) == expected
    assert exact.f32_value(evaluate(e4m3_bits(bv(bits_of(x))))) == expected
    if abs(x) <= 464:
        q, m = z3.Real("q"), z3.Int("m")
        solver = z3.Solver()
        solver.add(rounds_e4m3(rat(F(x)), q, m), q != rat(expected))
        assert solver.check() == z3.unsat


def test_another_rounding_would_be_noticed():
    assert exact.round_e4m3(F(1.0625)) != exact.round_e4m3(F(1.0625), fraction_bits=2) + F(1, 8)
    x, q, m = 1.0625, z3.Real("q"), z3.Int("m")
    solver = z3.Solver()
    solver.add(rounds_e4m3(rat(F(x)), q, m, fraction_bits=5), q != rat(spec_e4m3(x)))
    assert solver.check() == z3.sat


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_fp32_and_bf16_roundings_agree(x):
    assert exact.round_f32(F(x)) == F(x)
    stored = BF16.decode(BF16.encode(np.array([x], np.float32)))[0]
    assert evaluate(bf16_bits(bv(bits_of(x)))) == bits_of(stored)


@given(st.floats(min_value=1e-40, max_value=1e38), st.booleans())
def test_fp32_rounding_agrees_with_numpy(x, negative):
    x = -x if negative else x
    with np.errstate(under="ignore"):
        expected = F(float(np.float32(x)))
    assert exact.round_f32(F(x)) == expected


@pytest.mark.parametrize(("fmt", "exponent_bits"), [(E4M3, 4), (E5M2, 5)])
def test_all_codes_decode_alike(fmt, exponent_bits):
    values = fmt.decode(np.arange(256, dtype=np.uint8))
    for code, value in enumerate(values):
        mine = exact.decode_e4m3(code, exponent_bits=exponent_bits)
        assert mine == (F(float(value)) if np.isfinite(value) else None)


def test_codes_split_into_significand_and_exponent():
    for mantissa_bits, exponent_bits in ((3, 4), (2, 5)):
        for code in range(0x78):
            bits = z3.BitVecVal(code, 8)
            m = evaluate(significand(bits, mantissa_bits=mantissa_bits))
            e = z3.simplify(exponent(bits, mantissa_bits=mantissa_bits)).as_signed_long()
            value = exact.decode_e4m3(code, exponent_bits=exponent_bits)
            assert m * exact.pow2(e - mantissa_bits) == value


@given(st.integers(0, 225), st.integers(0, 28))
def test_alignment_is_truncation(n, d):
    kept, lost = (evaluate(part) for part in aligned(bv(n), bv(d)))
    value = F(n) * exact.pow2(7 - d)
    assert kept == exact.truncate(value, F(1))
    assert lost * exact.pow2(-d) == value - kept


CODES = st.lists(st.integers(0, 255).filter(lambda c: c & 0x7F != 0x7F), min_size=32, max_size=32)


@given(CODES, CODES, st.floats(width=32, min_value=-(2.0**20), max_value=2.0**20))
def test_the_instruction_agrees_with_the_specification(a, b, c):
    codes = [np.array([row], np.uint8) for row in (a, b)]
    expected = hopper.wgmma(*codes, np.array([[c]], np.float32))[0, 0]
    assert exact.wgmma(a, b, F(c)) == F(float(expected))


def test_a_wider_window_would_be_noticed():
    a, b = [0x7E, 0x01] + [0] * 30, [0x7E, 0x01] + [0] * 30
    unaligned = sum(
        (exact.decode_e4m3(x) * exact.decode_e4m3(y) for x, y in zip(a, b, strict=True)), F(0)
    )
    assert exact.wgmma(a, b, F(0)) != unaligned


def test_rational_enclosures_hold():
    ctx.prec = 200
    for (low, high), value in (
        (softmax.LOG2_E, 1 / arb(2).log()),
        (softmax.LN_2, arb(2).log()),
    ):
        assert arb(low.numerator) / low.denominator < value
        assert value < arb(high.numerator) / high.denominator
    assert F(float(np.float32(np.log2(np.e)))) == F(softmax.LOG2_E_F32, 2**23)
    assert F(float(np.float32(np.log(2)))) == F(softmax.LN_2_F32, 2**24)


@given(st.integers(225 * 128, 2**17))
def test_products_are_built_for_any_total(total):
    from dmverify.proofs.tensor_core import products_for

    a, b = products_for(total)
    assert len(a) == len(b) <= 32
    products = (exact.decode_e4m3(x) * exact.decode_e4m3(y) for x, y in zip(a, b, strict=True))
    assert sum(products) == F(total, 2**18)
    terms, _, _ = exact.wgmma_terms(a, b, F(0))
    assert sum(terms) == F(total, 2**18)


def breakpoints():
    """All 126 gaps of E4M3: both ends, the middle, and its float32 neighbours; both signs."""
    values = E4M3.decode(np.arange(0x7F, dtype=np.uint8))
    middles = (values[1:] + values[:-1]) / np.float32(2)
    around = [np.nextafter(middles, np.float32(side)) for side in (0, np.inf)]
    x = np.concatenate([values, middles, *around, np.float32([464])])
    return np.concatenate([x, -x]).tolist()


def test_the_cast_on_bits_is_right_at_every_breakpoint():
    """Between breakpoints a rounding is constant, so these are all of its cases."""
    wrong = [x for x in breakpoints() if evaluate(e4m3_bits(bv(bits_of(x)))) & MAGNITUDE
             != bits_of(float(spec_e4m3(abs(x))))]  # fmt: skip
    assert wrong == []
    other = [x for x in breakpoints() if evaluate(e4m3_bits(bv(bits_of(x)), fraction_bits=2))
             & MAGNITUDE != bits_of(float(spec_e4m3(abs(x))))]  # fmt: skip
    assert other != []


MAGNITUDE = 0x7FFFFFFF


def test_the_cast_on_reals_is_right_at_every_breakpoint():
    """One solver, one query for each: another value than the specification's is impossible."""
    q, m = z3.Real("q"), z3.Int("m")
    solver = z3.Solver()
    for x in breakpoints():
        solver.push()
        solver.add(rounds_e4m3(rat(F(x)), q, m), q != rat(spec_e4m3(x)))
        assert solver.check() == z3.unsat, x
        solver.pop()
        solver.push()
        solver.add(rounds_e4m3(rat(F(x)), q, m), q == rat(spec_e4m3(x)))
        assert solver.check() == z3.sat, x
        solver.pop()


def test_gaps_are_those_of_the_format():
    for middle, half, low in gaps.midpoints():
        ends = (low, low + 2 * half)
        assert spec_e4m3(float(low)) == low
        assert spec_e4m3(float(middle), saturate=False) in ends
        assert middle - low == half
    assert len(gaps.midpoints()) == 127


def test_nearest_even_is_rounding():
    z, m = z3.Real("z"), z3.Int("m")
    for value in (F(n, 8) for n in range(-40, 41)):
        solver = z3.Solver()
        solver.add(z == rat(value), nearest_even(z, m))
        assert solver.check() == z3.sat
        assert solver.model()[m].as_long() == round(value)
        solver.add(m != round(value))
        assert solver.check() == z3.unsat
