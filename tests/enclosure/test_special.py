"""How far a NaN or an infinity in one input spreads: the rule against the steps themselves."""

from dataclasses import replace

import numpy as np
import pytest

from dmverify.spec.arithmetic import Bits, Single
from dmverify.spec.attention import interpret
from dmverify.spec.attention.sums import ByWindow
from dmverify.spec.case import Inputs
from dmverify.spec.contracts import DELTAS, DS_CASTS, get_contract
from dmverify.spec.enclosure import enclosure
from dmverify.spec.enclosure.special import must_nan
from dmverify.spec.problem import Problem
from tests.attention.oracle import gaussian

SHAPES = {
    "square": Problem(1, 2, 1, 130, 130, 32),
    "dead rows in a visited tile": Problem(1, 1, 1, 150, 70, 32),
    "dead tile": Problem(1, 1, 1, 150, 10, 32),
    "more keys": Problem(1, 1, 1, 70, 200, 32),
    "no mask": Problem(2, 2, 2, 66, 65, 32, causal=False, softmax_scale=-0.3),
}
OPERANDS = ("q", "k", "v", "do")
NORMALISER = {"associated": "codes"}
VALUES = (np.nan, np.inf, -np.inf)


def spoiled(problem, operand, value, place, seed=3):
    """Gaussian inputs with one special value at a token counted from the end if negative."""
    inputs = gaussian(problem, seed=seed)
    tensors = {name: array.copy() for name, array in inputs.items()}
    tensors[operand][-1, place, 0, 5] = value
    return Inputs(**tensors)


def places(problem, operand):
    """The first tile, and the last: hidden from the first queries, and ragged."""
    length = problem.queries if operand in ("q", "do") else problem.keys
    return (0, length - 1)


def bits_nan(contract, problem, inputs):
    with np.errstate(all="ignore"):
        found = interpret(contract, problem, inputs, Bits()).outputs
    return {name: np.isnan(array) for name, array in found.items()}


def decided(contract, inputs, name):
    """A stale delta multiplies an infinity of dO by O, which may be NaN or infinite."""
    return not (contract.delta == "stale" and name == "delta" and np.isinf(inputs.do).any())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("operand", OPERANDS)
def test_with_windows_the_rule_is_what_the_bits_do(shape, delta, operand):
    problem = SHAPES[shape]
    for number, place in enumerate(places(problem, operand)):
        contract = get_contract("bundled", delta=delta, ds_cast=DS_CASTS[number % 2])
        inputs = spoiled(problem, operand, VALUES[(number + len(delta)) % 3], place)
        found = bits_nan(contract, problem, inputs)
        must = must_nan(contract, problem, inputs)
        for name, nan in found.items():
            if decided(contract, inputs, name):
                assert (nan == must[name]).all(), (name, place)
            assert not (must[name] & ~nan).any(), (name, place)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("block", ["64", "128", "whole"])
def test_keys_that_are_not_centred_spoil_their_block_alone(shape, block):
    """A row that sees no key of the block is as it was: no mean carries the NaN there."""
    problem = SHAPES[shape]
    contract = get_contract(f"bundled:centre_k=none,k_block={block}")
    for number, place in enumerate((*places(problem, "k"), problem.keys // 2)):
        inputs = spoiled(problem, "k", VALUES[number], place)
        found, must = bits_nan(contract, problem, inputs), must_nan(contract, problem, inputs)
        assert [name for name, nan in found.items() if (nan != must[name]).any()] == [], place


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("cast", DS_CASTS)
@pytest.mark.parametrize("operand", OPERANDS)
def test_both_casts_and_every_value(delta, cast, operand):
    problem = SHAPES["square"]
    contract = get_contract("bundled", delta=delta, ds_cast=cast)
    for value in VALUES:
        inputs = spoiled(problem, operand, value, 100)
        found = bits_nan(contract, problem, inputs)
        must = must_nan(contract, problem, inputs)
        wrong = [n for n in found if decided(contract, inputs, n) and (found[n] != must[n]).any()]
        assert wrong == []


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("shape", ["square", "dead rows in a visited tile"])
def test_the_bands_allow_what_the_bits_do_and_demand_what_must_be(shape, delta, operand):
    problem = SHAPES[shape]
    contract = get_contract("bundled", delta=delta)
    inputs = spoiled(problem, operand, np.nan, -1)
    found = bits_nan(contract, problem, inputs)
    for name, band in enclosure(contract, problem, inputs).items():
        assert not (found[name] & ~band.may_nan).any(), name
        assert not (~found[name] & band.must_nan).any(), name
        assert not (~found[name] & band.may_nan).any(), name  # and leave no number open


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("operand", OPERANDS)
def test_without_windows_a_dense_kernel_is_between_must_and_may(delta, operand):
    for name in ("square", "dead rows in a visited tile", "dead tile"):
        problem = SHAPES[name]
        contract = get_contract(
            "article", delta=delta, normaliser=NORMALISER.get(delta, "unrounded")
        )
        for place in places(problem, operand):
            inputs = spoiled(problem, operand, np.nan, place)
            with np.errstate(all="ignore"):
                found = interpret(contract, problem, inputs, Single()).outputs
            for output, band in enclosure(contract, problem, inputs).items():
                nan = np.isnan(getattr(found, output))
                assert not (nan & ~band.may_nan).any(), (name, output, place)
                assert not (~nan & band.must_nan).any(), (name, output, place)


@pytest.mark.parametrize("operand", OPERANDS)
def test_a_nan_in_part_of_a_tile_is_in_all_of_it(operand):
    """Blocks smaller than the tiles of dS: its amax is NaN, and so is what it scales."""
    problem = SHAPES["square"]
    contract = get_contract(f"article:centre_k=none,{operand}_block=32")
    inputs = spoiled(problem, operand, np.nan, 65)
    with np.errstate(all="ignore"):
        found = interpret(contract, problem, inputs, Single()).outputs
    bands = enclosure(contract, problem, inputs)
    assert bands["dq"].must_nan.any()
    for output, band in bands.items():
        nan = np.isnan(getattr(found, output))
        assert not (nan & ~band.may_nan).any(), output
        assert not (~nan & band.must_nan).any(), output


def test_rows_that_visit_no_tile_with_the_nan_stay_finite():
    """What an H200 answered to special/v-nan@0: rows 0 to 63 never read keys 64 to 127."""
    problem = Problem(1, 1, 1, 260, 260, 64)
    for delta in ("matched", "renormalized", "shifted"):
        contract = get_contract("bundled", delta=delta)
        inputs = spoiled(problem, "v", np.nan, 124)
        found = bits_nan(contract, problem, inputs)
        assert not found["delta"][..., :64].any()
        assert not found["dq"][:, :64].any()
        assert found["delta"][..., 64:].all()
        assert found["dq"][:, 64:].all()


def test_a_delta_that_reads_hidden_windows_is_told_apart(monkeypatch):
    """The steps as they were before the card disagreed."""
    original = ByWindow.over_windows

    def everywhere(order, lanes, scale):
        return original(replace(order, visited=np.ones_like(order.visited)), lanes, scale)

    monkeypatch.setattr(ByWindow, "over_windows", everywhere)
    problem, contract = SHAPES["square"], get_contract("bundled")
    inputs = spoiled(problem, "v", np.nan, 100)
    found = bits_nan(contract, problem, inputs)
    must = must_nan(contract, problem, inputs)
    assert (found["delta"] & ~must["delta"]).any()
