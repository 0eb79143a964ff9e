"""Public rules accept what they are said to accept on inputs of their own kind, and reject some."""

from dataclasses import replace

import numpy as np
import pytest

from dmverify.conformance.families import generate
from dmverify.lab.public_rules import PUBLIC_RULES, references
from dmverify.lab.public_rules.judges import (
    as_close_as_rough,
    close,
    mean_square_below,
    noise_below,
    range_error_below,
    similar,
)
from dmverify.spec.arithmetic import Double, Single
from dmverify.spec.attention import interpret
from dmverify.spec.case import Inputs
from dmverify.spec.contracts import get_contract
from dmverify.spec.problem import Problem

GRADIENTS = ("dq", "dk", "dv")
TOKENS = 1024


def attention(inputs, problem):
    return interpret(get_contract("bundled"), problem, inputs, Double()).values


def drawn(problem, draw):
    rng = np.random.default_rng(7)
    shapes = problem.shapes()
    return Inputs(**{n: draw(rng, shapes[n]).astype(np.float32) for n in ("q", "k", "v", "do")})


def bf16(rng, shape):
    bits = rng.standard_normal(shape).astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


@pytest.fixture(scope="module")
def gaussian():
    """Causal Gaussian attention: ordinary test inputs."""
    problem = Problem(1, 2, 2, TOKENS, TOKENS, 64)
    return attention(drawn(problem, bf16), problem)


@pytest.fixture(scope="module")
def sparse():
    """Sparse integers in [-2, 2]."""

    def draw(rng, shape):
        return rng.integers(-2, 3, shape) * (rng.random(shape) < 0.1)

    problem = Problem(1, 1, 1, TOKENS, TOKENS, 64, causal=False)
    return attention(drawn(problem, draw), problem)


def accepts(judge, got, due, rough=None):
    with np.errstate(all="ignore"):
        return judge(got, due, due if rough is None else rough)


@pytest.mark.parametrize("factor", [0.0, -1.0, 10.0])
def test_flashinfer_accepts_zeros_signs_and_ten_times_too_much(factor):
    problem = Problem(1, 1, 1, TOKENS, TOKENS, 64, causal=False)
    o = attention(drawn(problem, bf16), problem)["o"]
    assert accepts(mean_square_below(1.0), factor * o, o)


def test_flashinfer_rejects_noise_of_size_one(gaussian):
    assert not accepts(mean_square_below(1.0), gaussian["o"] + 1.01, gaussian["o"])


@pytest.mark.parametrize("name", ["o", "dv", "dk", "dq"])
@pytest.mark.parametrize("wrong", [np.zeros_like, lambda x: 2 * x, lambda x: np.roll(x, 1, 2)])
def test_transformer_engine_accepts_zeros_doubles_and_other_heads(gaussian, name, wrong):
    due = gaussian[name]
    assert accepts(range_error_below(0.11), wrong(due), due)


def test_transformer_engine_accepts_a_wrong_sign(gaussian):
    assert accepts(range_error_below(0.11), -gaussian["o"], gaussian["o"])


def test_transformer_engine_rejects_an_error_of_a_fifth_of_the_range():
    due = np.linspace(0, 1, 100)
    assert not accepts(range_error_below(0.11), due[::-1], due)


@pytest.mark.parametrize(("name", "atol"), [("o", 0.08), ("dq", 0.04), ("dk", 0.04)])
def test_cudnn_frontend_accepts_zero_almost_everywhere(sparse, name, atol):
    due = sparse[name]
    fine = np.abs(due) <= atol + 0.2 * np.abs(due)
    assert fine.mean() > 0.999


def test_cudnn_frontend_rejects_one_wrong_element(sparse):
    due = sparse["o"]
    got = due.copy()
    got[0, 0, 0, 0] += 1
    assert not accepts(close(atol=0.08, rtol=0.2), got, due)


def test_flash_attention_3_accepts_what_it_says_and_no_more():
    due, rough = np.array([1.0, 2.0]), np.array([1.0, 2.5])
    assert accepts(as_close_as_rough(2.0), due + 1.0, due, rough)
    assert not accepts(as_close_as_rough(2.0), due + 1.01, due, rough)


def test_flash_attention_3_accepts_zeroed_heads_and_a_dropped_tile():
    """Normalised P of so many keys is below E4M3's numbers, so the rough reference is bad."""
    case = generate("gaussian/spread-1,heads=2,kv_heads=2,queries=64,keys=4096,causal=0@0")
    made, rule = references(case), PUBLIC_RULES["flash-attention-3"]
    single = Single(frozenset({"operands"}))
    good = interpret(get_contract("bundled"), case.problem, case.inputs, single).outputs
    hole = good.o.copy()
    hole[:, :, 0] = 0
    assert rule.accepts(replace(good, o=hole), made)
    shorter = drop_last_tile(case)
    assert rule.accepts(replace(good, o=shorter), made)
    assert not rule.accepts(replace(good, o=good.o + 1), made)


def drop_last_tile(case):
    problem = replace(case.problem, keys=case.problem.keys - 64)
    inputs = replace(case.inputs, k=case.inputs.k[:, :-64], v=case.inputs.v[:, :-64])
    single = Single(frozenset({"operands"}))
    return interpret(get_contract("bundled"), problem, inputs, single).outputs.o


def test_deepgemm_accepts_four_per_cent_and_a_zeroed_tile():
    """The tile is a 1024th of the tensor, as 128 x 128 is of 4096 x 4096."""
    due = np.random.default_rng(1).standard_normal((512, 512))
    hole = due.copy()
    hole[:16, :16] = 0
    assert accepts(similar(1e-3), 1.04 * due, due)
    assert accepts(similar(1e-3), hole, due)
    assert not accepts(similar(1e-3), 1.06 * due, due)


def test_primus_turbo_accepts_nine_per_cent_more(gaussian):
    assert accepts(noise_below(20.0), 1.09 * gaussian["o"], gaussian["o"])
    assert not accepts(noise_below(20.0), 1.11 * gaussian["o"], gaussian["o"])


def test_allclose_accepts_a_zeroed_row_of_small_numbers():
    due = np.full((4, 8), 0.0099)
    hole = due.copy()
    hole[2] = 0
    assert accepts(close(atol=1e-2, rtol=1e-2), hole, due)
    assert not accepts(close(atol=1e-2, rtol=1e-2), due + 0.0102, due)


@pytest.mark.parametrize("rule", PUBLIC_RULES.values(), ids=lambda rule: rule.id)
def test_every_rule_rejects_nan_and_the_far_off_and_accepts_the_reference(rule):
    case = generate("gaussian/spread-1,heads=1,queries=60,keys=60@0")
    made = references(case)
    contract = get_contract("bundled")
    same = interpret(contract, case.problem, case.inputs, Double()).outputs
    due = made.operands if rule.on_operands else made.exact
    good = {name: due[name].astype(np.float32) for name in rule.judges}
    assert rule.accepts(replace(same, **good), made)
    far = {name: x + np.float32(100) for name, x in good.items()}
    assert not rule.accepted(replace(same, **far), made)
    nan = {name: np.full_like(x, np.nan) for name, x in good.items()}
    assert not rule.accepted(replace(same, **nan), made)
