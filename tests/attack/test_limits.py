"""Limits hold after a repair, and what breaks one is noticed."""

import pytest
import torch

from dmverify.attack.limits import get_limits, near
from dmverify.attack.stack import Stack
from dmverify.errors import InputError, UnknownNameError
from tests.attack.conftest import SMALL, drawn


@pytest.mark.parametrize("name", ["statistical", "stress"])
@pytest.mark.parametrize("spread", [0.1, 1.0, 10.0])
def test_most_repaired_candidates_are_allowed_and_all_are_bf16(name, spread):
    limits = get_limits(name)
    fixed = limits.repair(SMALL, drawn(SMALL, 200, spread=spread))
    assert float(limits.hold(SMALL, fixed).float().mean()) > 0.9
    fixed.inputs()  # raises for what BF16 does not hold


@pytest.mark.parametrize(
    "change",
    [
        lambda s: Stack(s.q * 0 + 5, s.k, s.v, s.do),  # too large
        lambda s: Stack(s.q * 0.25, s.k, s.v, s.do),  # rows too small
        lambda s: Stack(s.q, s.k, s.v * 0.05 + 1, s.do),  # a mean of twenty deviations
        lambda s: Stack(s.q.sign() * 1.4, s.q.sign() * 1.4, s.v, s.do),  # logits
        lambda s: Stack(s.q * float("nan"), s.k, s.v, s.do),
    ],
)
def test_what_breaks_a_limit_is_noticed(change):
    limits = get_limits("statistical")
    good = limits.repair(SMALL, drawn(SMALL))
    assert limits.hold(SMALL, good).all()
    assert not limits.hold(SMALL, change(good)).any()


def test_a_repair_leaves_alone_what_is_allowed():
    limits = get_limits("statistical")
    once = limits.repair(SMALL, drawn(SMALL, 50))
    once = once[limits.hold(SMALL, once)]
    again = limits.repair(SMALL, once)
    assert float((again.v - once.v).abs().max()) <= 2.0**-6


@pytest.mark.parametrize("within", [0.01, 0.03, 0.1])
def test_a_box_holds_its_repairs_and_nothing_beyond(within):
    centre = drawn(SMALL)
    box = near(centre, within)
    wild = Stack(*(x + torch.randn(20, *x.shape[1:]) for x in centre.tensors()))
    fixed = box.repair(SMALL, wild)
    assert box.hold(SMALL, fixed).all()
    fixed.inputs()
    low, high = box.box()
    assert box.hold(SMALL, low).all()
    assert box.hold(SMALL, high).all()
    assert (high.q > low.q)[centre.q.abs() > 0].float().mean() > 0.8
    ulp = 2.0**-7
    out = Stack(*(x * (1 + within + ulp) for x in centre.tensors()))
    assert not box.hold(SMALL, out).any()


def test_wrong_limits_are_refused():
    with pytest.raises(UnknownNameError):
        get_limits("statistic")
    with pytest.raises(InputError, match="3%"):
        near(drawn(SMALL), 1.5)
