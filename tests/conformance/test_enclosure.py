"""Enclosures: nothing that conforms is outside, and what is outside is rejected."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmverify.conformance.checks.bands import compare, judge_band
from dmverify.conformance.families import generate, list_cases
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.verdict import Verdict
from dmverify.spec.arithmetic import Exact, Single
from dmverify.spec.attention import interpret
from dmverify.spec.case import Inputs
from dmverify.spec.contracts import get_contract
from dmverify.spec.enclosure import covers, enclosure
from dmverify.spec.enclosure.casts import cast_interval, cast_weights
from dmverify.spec.enclosure.forward import HeadOperands, forward
from dmverify.spec.enclosure.interval import Interval, dot, point, total
from dmverify.spec.enclosure.operands import cast_operand, mean_interval, sum_error
from dmverify.spec.formats import BF16, E4M3

MODES = ("stale", "consistent", "matched")
SOME = [
    "gaussian/spread-4@1",
    "offset/kv-16@1",
    "rows/gap-64@1",
    "lengths/q129-k17@1",
    "lengths/group-3@1",
    "lengths/head-dim-32@1",
    "capture/minilm-short/layer2@0",
    "capture/chars-step800/layer1@0",
    "tiny-amax/far-keys-95@1",
    "logit-size/negative-scale@1",
]


def outside(outputs, bands):
    return {
        name: int((compare(array, bands[name]).margin > 1).sum())
        for name, array in outputs.items()
        if (compare(array, bands[name]).margin > 1).any()
    }


@pytest.mark.parametrize("name", list_cases(seed=5))
def test_the_simulation_is_inside_on_every_family(name):
    case = generate(name, contract="article")
    bands = enclosure(get_contract("article"), case.problem, case.inputs)
    assert outside(Simulation().backward(case), bands) == {}


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize(
    "contract", ["article:delta=stale", "article:delta=consistent", "upstream"]
)
def test_the_simulation_is_inside_in_every_mode(name, contract):
    case = generate(name, contract=contract)
    bands = enclosure(get_contract(contract), case.problem, case.inputs)
    assert outside(Simulation().backward(case), bands) == {}


@pytest.mark.parametrize("name", SOME[:6])
def test_the_specification_in_float32_is_inside(name):
    """Another program with other orders: the steps of the specification in float32."""
    contract = get_contract("article")
    case = generate(name, contract="article")
    bands = enclosure(contract, case.problem, case.inputs)
    found = interpret(contract, case.problem, case.inputs, Single()).outputs
    assert outside(found, bands) == {}


def test_another_order_of_channels_is_inside():
    """Scales span all channels, so permuted channels are the same call summed in another order."""
    case = generate("gaussian/spread-2@3", contract="article")
    bands = enclosure(get_contract("article"), case.problem, case.inputs)
    rng = np.random.default_rng(0)
    plain = Simulation().backward(case)
    for _ in range(3):
        order = rng.permutation(case.problem.head_dim)
        mixed = Inputs(**{n: np.ascontiguousarray(x[..., order]) for n, x in case.inputs.items()})
        found = Simulation().backward(replace(case, inputs=mixed))
        back = np.argsort(order)
        found = replace(found, **{n: getattr(found, n)[..., back] for n in ("o", "dq", "dk", "dv")})
        assert outside(found, bands) == {}
        assert (found.lse != plain.lse).any()  # the order did change something


@pytest.mark.parametrize("mode", MODES)
def test_exact_delta_and_lse_are_inside(mode):
    """Exact arithmetic rounds nothing but the casts, and is one of the numbers allowed."""
    contract = get_contract(f"article:delta={mode}")
    name = "gaussian/spread-2,queries=33,keys=40,head_dim=32@2"
    case = generate(name, contract=contract.name)
    bands = enclosure(contract, case.problem, case.inputs)
    exact = interpret(contract, case.problem, case.inputs, Exact())
    for output in ("lse", "delta"):
        band = bands[output]
        lo, hi = exact.ends[output]
        assert (lo >= band.lo).all()
        assert (hi <= band.hi).all()


def test_bands_are_narrow():
    """On ordinary data the bound of an output is a few thousandths of it, mostly the BF16 store."""
    case = generate("gaussian/spread-1,queries=256,keys=256@0", contract="article")
    bands = enclosure(get_contract("article"), case.problem, case.inputs)
    for name in ("o", "dq", "dk", "dv"):
        band = bands[name]
        assert not band.may_nan.any()
        rms = np.sqrt(np.mean(band.mid**2))
        assert np.median(band.above + band.below) / 2 < 5e-3 * rms, name
        single = band.lo == band.hi
        assert single.mean() > 0.25, name  # a quarter of the elements have one allowed value


@pytest.mark.parametrize("name", ["o", "dq", "dk", "dv"])
def test_the_next_bf16_number_beyond_an_end_is_rejected(name):
    case = generate("gaussian/spread-1@0", contract="article")
    band = enclosure(get_contract("article"), case.problem, case.inputs)[name]
    for end, away in ((band.hi, np.inf), (band.lo, -np.inf)):
        inside = end.astype(np.float32)
        assert judge_band(name, "c", inside, band).verdict is Verdict.CONFORMS
        beyond = next_bf16(inside, away)
        judged = compare(beyond, band)
        assert (judged.margin > 1).all()


def next_bf16(x, direction):
    """The neighbouring BF16 number."""
    step = np.nextafter(x, np.float32(direction))
    up = BF16.round(step + (step - x) * np.float32(2**15 + 1))
    return np.where(up == x, BF16.round(step + (step - x) * np.float32(2**16)), up)


def test_no_key_and_no_query():
    for name in ("no-keys", "no-queries", "no-batch"):
        case = generate(f"lengths/{name}@0", contract="article")
        bands = enclosure(get_contract("article"), case.problem, case.inputs)
        shapes = case.problem.shapes()
        assert all(band.lo.shape == shapes[n] for n, band in bands.items())
        assert (bands["lse"].hi == -np.inf).all()
        assert (bands["dk"].hi == 0).all()


def test_nan_is_due_where_a_block_is_nan():
    case = generate("special/q-nan@0", contract="article")
    bands = enclosure(get_contract("article"), case.problem, case.inputs)
    rows = np.isnan(case.inputs.q[0]).any(-1)  # (N, H)
    for head in range(2):
        hit = rows[:, head].nonzero()[0]
        block = np.zeros(130, bool)
        for row in hit:
            block[row // 128 * 128 : (row // 128 + 1) * 128] = True
        assert (bands["o"].must_nan[0, :, head].all(-1) == block).all()


def test_other_modes_are_enclosed_by_their_steps():
    contract = get_contract("article:delta=shifted")
    assert not covers(contract)
    assert covers(get_contract("upstream:delta=stale"))
    case = generate("gaussian/spread-2@0", contract=contract.name)
    bands = enclosure(contract, case.problem, case.inputs)
    assert outside(Simulation().backward(case), bands) == {}
    other = generate("gaussian/spread-2@0", contract="article:delta=stale")
    assert outside(Simulation().backward(other), bands).keys() >= {"delta", "dq", "dk"}


# The pieces, against exact rationals and random orders.


def float32_sum(terms, order):
    result = np.float32(0)
    for i in order:
        result = np.float32(result + terms[i])
    return result


bf16_numbers = st.floats(-4, 4, width=32).map(
    lambda x: float(BF16.round(np.array([x], np.float32))[0])
)


@given(st.lists(bf16_numbers, min_size=1, max_size=60), st.randoms())
@settings(max_examples=150)
def test_no_order_sums_bf16_numbers_worse_than_the_bound(numbers, random):
    terms = np.array(numbers, np.float32)
    exact = sum(map(Fraction, map(float, terms)))
    bound = float(sum_error(terms.astype(np.float64)[:, None])[0])
    order = list(range(len(terms)))
    for _ in range(3):
        random.shuffle(order)
        found = Fraction(float(float32_sum(terms, order)))
        assert abs(found - exact) <= Fraction(bound)
    lo, hi = mean_interval(terms[:, None])
    n = np.float32(len(terms))
    assert lo[0] <= found / n <= hi[0] or lo[0] <= np.float32(float(found)) / n <= hi[0]


def test_the_bound_of_bf16_sums_is_attained_and_can_fail():
    """2^-24 beside 1 is lost to the rounding: half a unit, as the bound says."""
    terms = np.array([1.0, 2.0**-24, 2.0**-24], np.float32)
    assert float32_sum(terms, [0, 1, 2]) == 1.0
    bound = sum_error(terms.astype(np.float64)[:, None])[0]
    assert 2.0**-23 <= bound <= 2.0**-21
    assert sum_error(np.array([[1.0], [2.0], [-3.5]]))[0] == 0


def test_bf16_sums_are_far_better_than_the_general_bound():
    k = BF16.round(np.random.default_rng(1).standard_normal((512, 64)).astype(np.float32))
    general = 511 * 2.0**-24 * np.abs(k).sum(0)
    assert (sum_error(k.astype(np.float64)) < general / 200).all()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_casts_hold_every_number_that_a_kernel_can_cast(seed):
    rng = np.random.default_rng(seed)
    middle = rng.standard_normal((9, 11)) * 10.0 ** rng.integers(-3, 3)
    width = np.abs(middle) * 2.0 ** rng.integers(-26, -3, middle.shape)
    lo, hi = (np.float32(x).astype(np.float64) for x in (middle - width, middle + width))
    box = cast_interval(Interval(lo, hi), 4, 5)
    for _ in range(5):
        x = np.clip((lo + (hi - lo) * rng.random(lo.shape)).astype(np.float32), lo, hi)
        x = x.astype(np.float32)
        found = cast_operand_tiles(x, 4, 5)
        assert (found >= box.lo).all()
        assert (found <= box.hi).all()
    outside_ = cast_interval(point(hi * 2), 4, 5)
    assert ((outside_.lo > box.hi) | (outside_.hi < box.lo)).any()


def cast_operand_tiles(x, rows, columns):
    out = np.empty_like(x)
    for i in range(0, x.shape[0], rows):
        for j in range(0, x.shape[1], columns):
            tile = x[i : i + rows, j : j + columns]
            amax = np.abs(tile).max()
            scale = np.float32(1) if amax == 0 else amax / np.float32(448)
            out[i : i + rows, j : j + columns] = E4M3.round(tile / scale, saturate=False) * scale
    return out


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_weights_hold_every_common_factor(seed):
    """e is known up to one factor a row; casting f * e gives f times a number inside."""
    rng = np.random.default_rng(seed)
    middle = np.exp(-rng.random((3, 20)) * 12)
    growth = 2.0**-18
    box = cast_weights(
        Interval(middle * (1 - growth), middle * (1 + growth)), 8, np.full((3, 1), 2.0)
    )
    factor = 2.0 ** rng.uniform(-0.9, 0.9, (3, 1))
    e = middle * (1 + growth * rng.uniform(-0.9, 0.9, middle.shape))
    kernel = cast_operand_tiles((e * factor).astype(np.float32), 1, 8).astype(np.float64)
    assert (kernel / factor >= box.lo * (1 - 1e-9)).all()
    assert (kernel / factor <= box.hi * (1 + 1e-9)).all()
    assert (box.hi <= middle * 1.07 + middle.max() * 2.0**-18).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
@settings(max_examples=60)
def test_dots_and_sums_hold_every_order(seed, length):
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((1, length)).astype(np.float32) for _ in range(2))
    box = dot(point(a.astype(np.float64)), point(b.astype(np.float64)).T, length)
    whole = total(point(a.astype(np.float64)), float(length))
    for _ in range(3):
        order = rng.permutation(length)
        found = float32_sum((a * b)[0], order)
        assert box.lo[0, 0] <= found <= box.hi[0, 0]
        assert whole.lo[0, 0] <= float32_sum(a[0], order) <= whole.hi[0, 0]
    exact = sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[0], b[0], strict=True))
    assert Fraction(box.lo[0, 0]) <= exact <= Fraction(box.hi[0, 0])
    size = float(np.abs(a * b).sum())
    assert box.hi[0, 0] - box.lo[0, 0] <= 2.01 * length * 2.0**-24 * size + 1e-40


def test_tiny_scales_are_left_open_and_ordinary_ones_are_not():
    tiny = np.full((1, 4), 2.0**-140)
    assert cast_interval(Interval(tiny, tiny * 2), 1, 4).open.all()
    assert not cast_interval(Interval(tiny * 2**20, tiny * 2**21), 1, 4).open.any()
    zero = np.zeros((1, 4))
    assert (cast_interval(point(zero), 1, 4).hi == 0).all()


def test_overflow_is_left_open():
    x = np.full((1, 2), 1e38)
    with np.errstate(all="ignore"):
        assert dot(point(x), point(x).T, 2).open.all()
        assert not dot(point(x / 1e20), point(x / 1e20).T, 2).open.any()


def test_a_forward_with_no_key_is_certain():
    none = np.zeros((3, 0), bool)
    wide, empty = np.zeros((3, 32), np.float32), np.zeros((0, 32), np.float32)
    head = HeadOperands(
        q=cast_operand(wide, 128),
        k=cast_operand(empty, 64),
        v=cast_operand(empty, 64),
        do=cast_operand(wide, 128),
        do_input=wide.astype(np.float64),
        seen=none,
        scale=0.125,
    )
    with np.errstate(all="ignore"):
        bounds = forward(get_contract("article"), head)
    assert (bounds.o.lo == 0).all()
    assert (bounds.o.hi == 0).all()
    assert np.isneginf(bounds.lse.hi).all()
