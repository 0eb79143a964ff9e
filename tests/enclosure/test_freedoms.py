"""What a contract leaves free lies inside the enclosure, its neighbours outside."""

from dataclasses import replace

import numpy as np
import pytest

from dmverify.conformance.checks.margins import compare
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.spec.arithmetic import Bits, Enclosure, Exact, Single
from dmverify.spec.arithmetic.interface import Logits
from dmverify.spec.arithmetic.interval import Interval, point
from dmverify.spec.attention import interpret
from dmverify.spec.case import Case, Inputs
from dmverify.spec.contracts import ARTICLE, get_contract
from dmverify.spec.enclosure import enclosure
from dmverify.spec.formats import BF16
from dmverify.spec.problem import Problem
from dmverify.studies.bounds.kernels import InOrder, Shuffled
from dmverify.studies.bounds.sharpness import OnOperands

GROUPED = "gaussian/spread-2,heads=4,kv_heads=1,queries=40,keys=70,head_dim=32@3"


class HeadByHead(Single):
    """Each head's dK and dV on its own, then added in ascending order, maybe through a format."""

    def __init__(self, heads, store=lambda x: x):
        super().__init__()
        self._heads, self._store = heads, store

    def dot(self, a, b, *, over):
        if over != "heads":
            return super().dot(a, b, over=over)
        total = np.float32(0)
        for x, y in zip(np.split(a, self._heads, 1), np.split(b, self._heads, 1), strict=True):
            total = total + self._store(x @ y.T)
        return total


def bf16(x):
    return BF16.round(x, saturate=False)


def outputs_of(kernel, case):
    return interpret(ARTICLE, case.problem, case.inputs, kernel).outputs


def outside(outputs, bands):
    return {n for n, x in outputs.items() if (compare(x, bands[n]).margin > 1).any()}


@pytest.mark.parametrize("kernel", [InOrder(), Shuffled(1), HeadByHead(4)], ids=lambda k: k.name)
def test_heads_of_a_group_in_one_chain_or_one_by_one(kernel):
    case = generate(GROUPED, contract="article")
    bands = enclosure(ARTICLE, case.problem, case.inputs)
    assert outside(outputs_of(kernel, case), bands) == set()


def test_heads_of_a_group_that_are_added_in_bf16_are_outside():
    case = generate(GROUPED, contract="article")
    bands = enclosure(ARTICLE, case.problem, case.inputs)
    assert outside(outputs_of(HeadByHead(4, bf16), case), bands) == {"dk", "dv"}


def cancelling_heads():
    """dV is 64, of the second head; the others cancel, and a chain through them loses it all."""
    problem = Problem(1, 3, 1, 64, 1, 32, causal=False)
    shapes = problem.shapes()
    tensors = {name: np.zeros(shapes[name], np.float32) for name in ("q", "k", "v", "do")}
    tensors["do"][0, 0, 0, 0], tensors["do"][0, 0, 2, 0] = 2.0**24, -(2.0**24)
    tensors["do"][0, :, 1, 0] = 1
    return Case("cancelling-heads", "article", problem, Inputs(**tensors))


def test_a_chain_through_the_heads_may_lose_what_their_own_sums_keep():
    case = cancelling_heads()
    band = enclosure(ARTICLE, case.problem, case.inputs)["dv"]
    chained, apart = (outputs_of(k, case).dv[0, 0, 0, 0] for k in (InOrder(), HeadByHead(3)))
    assert (chained, apart) == (0, 64)
    assert band.lo[0, 0, 0, 0] <= 0 <= 64 <= band.hi[0, 0, 0, 0]


@pytest.mark.parametrize("base", ["article", "bundled"])
def test_the_shift_of_a_row_that_sees_no_key_is_that_of_key_0(base):
    contract = get_contract(base, delta="shifted")
    case = generate("lengths/q129-k17@0", contract=contract.name)
    dead = ~case.problem.mask().any(axis=1)
    exact = interpret(contract, case.problem, case.inputs, Exact(frozenset({"operands"})))
    first = exact.values["delta"][..., dead]
    assert np.abs(first).min() > 0
    kernels = [Single(), OnOperands(), *([Bits()] if contract.bit_exact else [])]
    found = [interpret(contract, case.problem, case.inputs, k).outputs for k in kernels]
    found += [Simulation().backward(case)] if base == "article" else []
    for outputs in found:  # as near as the tensor core's 14 bits are
        delta = np.asarray(outputs.delta)[..., dead]
        assert (np.abs(delta - first) <= 2**-12 * np.abs(first).max()).all()
    band = interpret(contract, case.problem, case.inputs, Enclosure(contract)).ends["delta"]
    lo, hi = (end[..., dead] for end in band)
    kernel = found[-1].delta[..., dead]
    assert ((lo <= kernel) & (kernel <= hi)).all()
    assert not ((lo <= 0) & (hi >= 0)).any()


def test_a_nan_key_reaches_all_keys_only_through_their_mean():
    problem = Problem(1, 1, 1, 128, 128, 32)
    random = np.random.default_rng(0)
    tensors = {
        n: bf16(random.standard_normal(problem.shapes()[n]).astype(np.float32))
        for n in ("q", "k", "v", "do")
    }
    tensors["k"][0, 100, 0, 3] = np.nan
    inputs = Inputs(**tensors)
    for contract, hidden in ((replace(ARTICLE, centre_k="none"), 64), (ARTICLE, 0)):
        bands = enclosure(contract, problem, inputs)
        with np.errstate(invalid="ignore"):
            found = interpret(contract, problem, inputs, Single()).outputs
        assert outside(found, bands) == set()
        assert (np.isnan(found.o[0, :, 0]).all(1) == bands["o"].must_nan[0, :, 0].all(1)).all()
        assert bands["o"].must_nan[0, :, 0].all(1).argmax() == hidden


def random_rows(seed, spread, width):
    """Logits (40, 1, 9) with what they may be, and which are seen; some rows see nothing."""
    random = np.random.default_rng(seed)
    x = (random.standard_normal((40, 1, 9)) * spread).astype(np.float32)
    reach = (np.abs(x) * np.float32(width)).astype(np.float32)
    seen = random.random(x.shape) < 0.7
    return x, Interval((x - reach).astype(np.float64), (x + reach).astype(np.float64)), seen


@pytest.mark.parametrize("spread", [1.0, 40.0, 1e4, 1e9, 1e30])
@pytest.mark.parametrize("width", [0.0, 1e-6, 1e-3])
def test_shares_of_a_row_hold_every_choice_of_its_logits(spread, width):
    a = Enclosure(ARTICLE)
    x, box, seen = random_rows(int(spread) % 97, spread, width)
    top = a.max(a.select(a.mask(seen), box, point(np.full((1, 1, 1), -np.inf))), 2)
    row = Logits(box, top, seen)
    below = a.below_maximum(row)
    e = a.select(a.mask(seen), a.exp(below), point(np.zeros((1, 1, 1))))
    total = a.with_largest(a.sum(e, 2, over="tokens"))
    shares = a.share(e, total, row)
    random = np.random.default_rng(1)
    live = seen.any(2, keepdims=True)
    for _ in range(50):
        pick = box.lo + random.integers(0, 2, x.shape) * (box.hi - box.lo)
        s = pick.astype(np.float32)
        b = np.where(seen, s, -np.inf).max(2, keepdims=True)
        d = (s - b).astype(np.float32)
        assert ((below.lo <= d) & (d <= below.hi))[seen].all()
        single = np.where(seen, np.exp(np.where(seen, d, 0)), 0).astype(np.float32)
        size = single.sum(2, keepdims=True)
        assert ((total.lo <= size) & (size <= total.hi))[live].all()
        p = (single / np.where(live, size, 1)).astype(np.float32)
        assert ((shares.lo <= p) & (p <= shares.hi))[seen].all()
    assert (shares.lo >= 0).all()
    assert (shares.hi <= 1).all()
    if width == 0:  # known logits leave the exponential's and the sum's errors
        assert (shares.hi - shares.lo <= 3e-5 * shares.hi + 1e-37)[seen].all()


def test_the_largest_logit_is_its_own_reference():
    a = Enclosure(ARTICLE)
    box = Interval(np.array([[[9e6, 1e6, 2e6]]]), np.array([[[9.1e6, 1.1e6, 2.1e6]]]))
    seen = np.ones((1, 1, 3), bool)
    below = a.below_maximum(Logits(box, a.max(box, 2), seen))
    assert (below.lo[0, 0, 0], below.hi[0, 0, 0]) == (0, 0)
    assert below.hi[0, 0, 1] == 1.1e6 - 9e6
    assert a.sub(box, a.max(box, 2)).hi[0, 0, 0] == 1e5  # what independent intervals allow
    hidden = np.array([[[False, True, True]]])
    rest = a.below_maximum(Logits(box, box[:, :, 2:], hidden))
    assert (rest.lo[0, 0, 2], rest.hi[0, 0, 2]) == (0, 0)


@pytest.mark.parametrize("size", ["1e5", "1e7", "1e9"])
def test_large_logits_leave_the_outputs_bounded(size):
    """Logits that fp32 knows to 1e-5 of their size only: keys far below the maximum have P = 0."""
    case = generate("logit-size/logits-1e5,queries=40,keys=60,head_dim=32@0", contract="article")
    tensors = dict(case.inputs.items()) | {"q": case.inputs.q * np.float32(float(size) / 1e5)}
    inputs = Inputs(**{n: bf16(x) for n, x in tensors.items()})
    bands = enclosure(ARTICLE, case.problem, inputs)
    for kernel in (Single(), Shuffled(3)):
        found = interpret(ARTICLE, case.problem, inputs, kernel).outputs
        assert outside(found, bands) == set()
    assert all(not band.may_nan.any() for band in bands.values())


def test_the_bundled_kernel_is_bounded_up_to_logits_of_1e8():
    contract = get_contract("bundled")
    case = generate(
        "gaussian/spread-1,heads=1,queries=40,keys=70,head_dim=32@0", contract="bundled"
    )
    tensors = dict(case.inputs.items()) | {"q": case.inputs.q * np.float32(2e7)}
    inputs = Inputs(**{n: bf16(x) for n, x in tensors.items()})
    bands = enclosure(contract, case.problem, inputs)
    found = interpret(contract, case.problem, inputs, Bits()).outputs
    assert outside(found, bands) == set()
    assert all(not band.may_nan.any() for band in bands.values())
    free = enclosure(contract, case.problem, inputs, order="free")
    assert free["o"].may_nan.mean() > 0.9
