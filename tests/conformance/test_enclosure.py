"""Enclosures: nothing that conforms is outside, and what is outside is rejected."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmverify.conformance.checks.bands import judge_band
from dmverify.conformance.checks.margins import compare
from dmverify.conformance.families import generate, list_cases
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.verdict import Verdict
from dmverify.spec.arithmetic import Single
from dmverify.spec.attention import interpret
from dmverify.spec.attention.keys import mean_ends, sum_error
from dmverify.spec.case import Inputs
from dmverify.spec.contracts import get_contract
from dmverify.spec.enclosure import enclosure
from dmverify.spec.formats import BF16

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


@pytest.mark.parametrize("name", list_cases(seed=5)[::4])  # 'dmverify verify' runs them all
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
        assert single.mean() > 0.1, name  # many elements have one allowed value


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


def test_another_mode_is_outside():
    contract = get_contract("article:delta=shifted")
    case = generate("gaussian/spread-2@0", contract=contract.name)
    bands = enclosure(contract, case.problem, case.inputs)
    assert outside(Simulation().backward(case), bands) == {}
    other = generate("gaussian/spread-2@0", contract="article:delta=stale")
    assert outside(Simulation().backward(other), bands).keys() >= {"delta", "dq", "dk"}


# The sum behind the key mean, against exact rationals and random orders.


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
    lo, hi = mean_ends(terms[:, None])
    mean = np.float32(float(found)) / np.float32(len(terms))
    assert lo[0, 0] <= mean <= hi[0, 0]


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
