"""The operations of the enclosure against exact rationals and Arb, and wrong ones rejected."""

from dataclasses import replace
from fractions import Fraction

import flint
import numpy as np
import pytest

from dmverify.errors import ContractError, InputError
from dmverify.spec.arithmetic import Enclosure
from dmverify.spec.arithmetic.enclosure_dot import fp32_dot, wgmma_any_order, wgmma_bits
from dmverify.spec.arithmetic.interval import Interval, _nearest_inside, closed, inward, point
from dmverify.spec.contracts import ARTICLE, BUNDLED
from dmverify.spec.formats import E4M3
from dmverify.spec.machine.hopper import arith, wgmma_values
from dmverify.studies.bounds.kernels import Shuffled

A = Enclosure(ARTICLE)


def singles(seed, count=400):
    """float32 numbers of many sizes, subnormals and results that underflow among them."""
    random = np.random.default_rng(seed)
    exponent = random.integers(-80, 60, count)
    return np.ldexp(random.standard_normal(count), exponent).astype(np.float32)


def boxes(x, width, seed):
    """Intervals of float32 ends around x, x inside."""
    random = np.random.default_rng(seed)
    reach = np.abs(x) * np.float32(width)
    lo, hi = x - reach * random.random(x.shape, np.float32), x + reach
    return Interval(lo.astype(np.float64), hi.astype(np.float64))


BINARY = {"add": arith.add, "mul": arith.mul, "div": arith.div}


@pytest.mark.parametrize("name", BINARY)
def test_known_operands_give_the_rounded_result_alone(name):
    x, y = singles(1), singles(2)
    box = getattr(A, name)(point(x), point(y))
    expected = BINARY[name](x, y).astype(np.float64)
    finite = np.isfinite(expected)
    assert (box.lo == expected)[finite].all()
    assert (box.hi == expected)[finite].all()
    assert box.open[~finite].all()


@pytest.mark.parametrize("name", BINARY)
def test_no_float32_operand_leads_outside(name):
    x, y = singles(3), singles(4)
    box = getattr(A, name)(boxes(x, 1e-5, 1), boxes(y, 1e-3, 2))
    found = BINARY[name](x, y).astype(np.float64)
    assert ((found >= box.lo) & (found <= box.hi)).all()
    narrow = getattr(A, name)(boxes(x, 1e-5, 1), boxes(y * np.float32(1.5), 1e-3, 2))
    assert not ((found >= narrow.lo) & (found <= narrow.hi)).all()


def test_fma_rounds_once():
    x, y, z = singles(5), singles(6), singles(7)
    z[::2] = -(x * y)[::2]  # cancellation: the case that two roundings get wrong
    box = A.fma(point(x), point(y), point(z))
    found = arith.fma(x, y, z).astype(np.float64)
    finite = np.isfinite(found)
    assert ((found >= box.lo) & (found <= box.hi))[finite].all()
    assert (box.lo == box.hi)[finite].mean() > 0.99
    twice = (x * y + z).astype(np.float64)
    assert not ((twice >= box.lo) & (twice <= box.hi))[finite].all()


FUNCTIONS = {
    "exp": (lambda x: x.exp(), np.exp, 80.0),
    "exp2": (lambda x: (x * flint.arb.const_log2()).exp(), np.exp2, 120.0),
    "log": (lambda x: x.log(), np.log, None),
    "log2": (lambda x: x.log() / flint.arb.const_log2(), np.log2, None),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_hold_the_true_value_and_float32s(name):
    """Truth from Arb at 128 bits; the ends reach at most 5e-7 further."""
    true, single, top = FUNCTIONS[name]
    random = np.random.default_rng(8)
    x = random.random(300) * top - top / 2 if top else np.exp(random.standard_normal(300) * 20)
    x = x.astype(np.float32)
    box = getattr(A, name)(point(x))
    flint.ctx.prec = 128
    truth = [true(flint.arb(float(v))) for v in x]
    assert all(flint.arb(lo) <= t for lo, t in zip(box.lo.tolist(), truth, strict=True))
    assert all(flint.arb(hi) >= t for hi, t in zip(box.hi.tolist(), truth, strict=True))
    found = single(x).astype(np.float64)
    assert ((found >= box.lo) & (found <= box.hi)).all()
    assert (box.hi - box.lo <= 1e-6 * np.maximum(np.abs(box.hi), 1)).all()
    assert not ((found * (1 + 1e-6) + 1e-6 <= box.hi) & (found >= box.lo)).all()


def test_any_order_of_a_float32_dot():
    a, b = singles(9, 60)[None], singles(10, 60)[None]
    a, b = (np.clip(x, -(2.0**30), 2.0**30).astype(np.float32) for x in (a, b))
    box = fp32_dot(point(a), point(b))
    for seed in range(12):
        found = float(Shuffled(seed).dot(a, b, over="tokens")[0, 0])
        assert box.lo[0, 0] <= found <= box.hi[0, 0]
    exact = sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[0], b[0], strict=True))
    assert Fraction(box.lo[0, 0]) <= exact <= Fraction(box.hi[0, 0])


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_the_tensor_core(seed):
    random = np.random.default_rng(seed)
    codes = random.integers(0, 256, (2, 3, 96)).astype(np.uint8)
    a, b = E4M3.decode(np.where(codes & 0x7F == 0x7F, 0, codes).astype(np.uint8))
    box = wgmma_any_order(point(a), point(b))
    assert not box.open.any()
    for _ in range(8):
        order = random.permutation(96)
        mixed = [np.ascontiguousarray(x[:, order]) for x in (a, b)]
        found = wgmma_values(*mixed, np.zeros((3, 3), np.float32))
        assert ((found >= box.lo) & (found <= box.hi)).all()


def test_every_order_of_three_products_over_two_instructions():
    """Exhaustive: all pairs of codes beside one that sets the exponent, in every placement."""
    codes = np.arange(256, dtype=np.uint8)
    values = E4M3.decode(codes[codes & 0x7F != 0x7F])
    x, y = (part.reshape(-1) for part in np.meshgrid(values, values))
    one = np.ones((1, 64), np.float32)
    zero = np.zeros((len(x), 1), np.float32)
    for first in (1.0, -256.0):
        terms = np.stack([np.full_like(x, first), x, y], 1)
        held = np.zeros((len(x), 64), np.float32)
        held[:, :3] = terms
        box = wgmma_any_order(point(held), point(one))
        for at in np.ndindex(2, 2, 2):  # which of the two instructions takes which product
            a = np.zeros((len(x), 64), np.float32)
            for i, half in enumerate(at):
                a[:, 32 * half + i] = terms[:, i]
            found = wgmma_values(a, one, zero)
            assert ((found >= box.lo) & (found <= box.hi)).all()


def test_intervals_of_codes_hold_every_choice():
    random = np.random.default_rng(0)
    low = E4M3.round((random.standard_normal((4, 64)) * 30).astype(np.float32), saturate=True)
    high = E4M3.round(low + np.abs(low) * np.float32(0.2), saturate=True)
    box = Interval(low.astype(np.float64), high.astype(np.float64))
    b = E4M3.round((random.standard_normal((5, 64)) * 30).astype(np.float32), saturate=True)
    allowed = wgmma_any_order(box, point(b))
    for _ in range(30):
        chosen = np.where(random.random(low.shape) < 0.5, low, high)
        found = wgmma_bits(point(chosen), point(b))
        assert ((found.lo >= allowed.lo) & (found.lo <= allowed.hi)).all()


def test_ends_are_float32_and_open_where_nothing_is_known():
    box = inward(np.array([0.1]), np.array([0.3]))
    assert (np.float32(box.lo) == box.lo).all()
    assert box.lo[0] >= 0.1
    assert box.hi[0] <= 0.3
    assert closed(np.array([np.nan]), np.array([1.0])).open.all()
    assert A.div(point([1.0]), Interval(np.array([-1.0]), np.array([1.0]))).open.all()
    assert A.mul(point([0.0]), closed(np.array([-np.inf]), np.array([np.inf]))).open.all()


@pytest.mark.parametrize("towards", [np.inf, -np.inf])
def test_an_end_is_the_nearest_float32_on_its_side(towards):
    """Against numpy's ``nextafter``: every binade, both signs, zeros, subnormals, overflow, NaN."""
    random = np.random.default_rng(3)
    sizes = np.ldexp(random.uniform(1, 2, (300, 4)), np.arange(-160, 140)[:, None]).ravel()
    edges = [0.0, 2.0**-149, 2.0**-150, 2.0**-126, 3.4028234663852886e38, 1.5, np.inf, np.nan]
    x = np.concatenate([sizes, np.array(edges), np.float32(sizes[400:900]).astype(float)])
    x = np.concatenate([x, -x])
    with np.errstate(all="ignore"):
        found, single = _nearest_inside(x, towards), x.astype(np.float32)
        outside = single < x if towards > 0 else single > x
        due = np.where(outside, np.nextafter(single, np.float32(towards)), single)
    assert outside.any()
    assert found.tobytes() == due.astype(np.float64).tobytes()


def test_a_carry_stays_within_half_a_unit():
    t = Interval(np.array([15.9, 440.0]), np.array([17.2, 470.0]))
    codes = A.cast(t, E4M3, site="ds", saturate=True)
    carry = A.carry(t, codes)
    assert (np.abs([carry.lo[0], carry.hi[0]]) <= 17.2 / 17 + 1e-6).all()
    assert carry.hi[1] <= 464 / 17 + 1e-6
    assert A.sub(t, codes).hi[0] > 1.1  # what the interval alone would allow


def test_a_scale_that_may_be_zero_does_not_open_what_it_scales():
    """dS of a tile that may be all zero: its least nonzero value keeps the scale off 0."""
    p, dp = point([[0.5]]), Interval(np.array([[1.0]]), np.array([[1.0 + 2.0**-20]]))
    ds = A.mul(p, A.sub(dp, point([[1.0]])))
    assert ds.lo[0, 0] == 0
    scale = A.div(A.max(A.absolute(ds), 1), point([[448.0]]))
    assert not A.scale_down(ds, scale, E4M3).open.any()


def test_what_is_refused():
    with pytest.raises(InputError, match="order is channels or free"):
        Enclosure(ARTICLE, order="any")
    with pytest.raises(InputError, match="float64 adds"):
        wgmma_any_order(point(np.ones((1, 2**17 + 1))), point(np.ones((1, 2**17 + 1))))
    with pytest.raises(ContractError, match="keys centred"):
        replace(BUNDLED, centre_k="mean")  # keys as sets are derived for amax / 448
