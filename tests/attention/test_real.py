"""With the casts off, every contract, mode and cast is ordinary attention."""

import numpy as np
import pytest

from dmverify.spec.arithmetic import Double, Exact
from dmverify.spec.attention import interpret
from dmverify.spec.contracts import DELTAS, DS_CASTS, get_contract
from dmverify.spec.problem import Problem
from tests.attention.oracle import attention, gaussian

LENGTHS = (0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 191)
CONTRACTS = ("article", "upstream", "bundled")


def every_contract():
    for base in CONTRACTS:
        for delta in DELTAS:
            for cast in DS_CASTS:
                extra = {"normaliser": "codes"} if delta == "associated" else {}
                yield get_contract(base, delta=delta, ds_cast=cast, **extra)


def assert_close(result, expected, tolerance):
    for name, want in expected.items():
        got = result.values[name]
        assert got.shape == want.shape, name
        finite = np.isfinite(want)
        assert np.array_equal(finite, np.isfinite(got)), name
        error = np.abs(got[finite] - want[finite])
        assert error.size == 0 or error.max() <= tolerance * max(1.0, np.abs(want[finite]).max())


@pytest.mark.oracle
@pytest.mark.parametrize("contract", list(every_contract()), ids=lambda c: c.name)
@pytest.mark.parametrize(
    "problem",
    [
        Problem(2, 6, 2, 65, 130, 64),
        Problem(1, 2, 1, 130, 65, 32),
        Problem(1, 2, 2, 70, 50, 32, causal=False, softmax_scale=-0.3),
    ],
    ids=["gqa3", "dead-rows", "negative-scale"],
)
def test_casts_off_is_attention(contract, problem):
    inputs = gaussian(problem, seed=1)
    assert_close(interpret(contract, problem, inputs, Double()), attention(problem, inputs), 1e-12)


@pytest.mark.oracle
@pytest.mark.parametrize("base", CONTRACTS)
@pytest.mark.parametrize("queries", LENGTHS)
@pytest.mark.parametrize("keys", LENGTHS)
def test_any_lengths(base, queries, keys):
    group = (1, 3, 7, 8)[(queries + keys) % 4]
    problem = Problem(1, group, 1, queries, keys, 32, causal=(queries + keys) % 3 != 0)
    inputs = gaussian(problem, seed=queries * 1000 + keys)
    result = interpret(get_contract(base), problem, inputs, Double())
    assert_close(result, attention(problem, inputs), 1e-12)


@pytest.mark.oracle
@pytest.mark.parametrize("spread", [1.0, 64.0])
@pytest.mark.parametrize("base", CONTRACTS)
def test_exact_encloses_float64(base, spread):
    problem = Problem(1, 2, 1, 65, 129, 32)
    inputs = gaussian(problem, seed=2, spread=spread)
    result = interpret(get_contract(base), problem, inputs, Exact())
    for low, high in result.ends.values():
        seen = np.isfinite(low)
        size = np.maximum(np.abs(low), np.abs(high))
        assert (high - low <= 1e-15 * size + 1e-28)[seen].all()
    assert_close(result, attention(problem, inputs), 1e-12)


def test_the_comparison_can_fail():
    problem = Problem(1, 1, 1, 64, 64, 32)
    inputs = gaussian(problem)
    expected = attention(problem, inputs)
    expected["dk"] = expected["dk"] + 1e-11 * np.abs(expected["dk"]).max()
    result = interpret(get_contract("article"), problem, inputs, Double())
    with pytest.raises(AssertionError):
        assert_close(result, expected, 1e-12)


def test_an_empty_batch_has_the_right_shapes():
    problem = Problem(0, 2, 1, 5, 7, 32)
    inputs = gaussian(problem)
    outputs = interpret(get_contract("bundled"), problem, inputs, Double()).outputs
    assert outputs.require(problem) is outputs
