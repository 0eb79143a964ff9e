"""Stacks, blocks and short paddings change no end and no bit: against one head at a time."""

from __future__ import annotations

import numpy as np
import pytest

from dmverify.errors import ContractError
from dmverify.spec.arithmetic import Bits, Double
from dmverify.spec.arithmetic.enclosure import Enclosure
from dmverify.spec.arithmetic.enclosure_dot import Sums
from dmverify.spec.arithmetic.enclosure_open import OpenEnclosure
from dmverify.spec.attention import interpret, parts
from dmverify.spec.attention.group import one_by_one
from dmverify.spec.attention.operands import padded
from dmverify.spec.attention.parts import (
    LIMITS,
    AttentionCall,
    Interpreter,
    Limits,
    bits_in_parts,
    in_parts,
)
from dmverify.spec.case import Inputs
from dmverify.spec.contracts import Contract, get_contract
from dmverify.spec.enclosure.enclose import in_any_order
from dmverify.spec.problem import Problem
from tests.enclosure.ends import random_problem

ALONE = Limits(stack=1, together=1)
BLOCKED = Limits(stack=1, head=1 << 10)
STACKED = Limits(stack=1 << 20, head=1 << 20)
DENSE = ("article", "article:delta=shifted", "upstream", "article:delta=stale,ds_cast=zero-sum")
OPEN = ("bf16-flash", "bf16-math", "flash-3-fp8", "cudnn-fp8")
WINDOWS = ("bundled:delta=stale", "bundled:delta=shifted,ds_cast=zero-sum")


def arithmetic(contract: Contract, problem: Problem) -> Enclosure:
    if contract.schedule.kind == "online":
        return OpenEnclosure(contract, group=problem.group)
    lengths = padded(problem.keys), padded(problem.queries) * problem.group
    return Enclosure(contract, lengths=lengths)


@pytest.mark.parametrize("limits", [BLOCKED, STACKED], ids=["blocked", "stacked"])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", [*DENSE, *OPEN, *WINDOWS])
def test_parts_have_the_ends_of_the_whole(name: str, seed: int, limits: Limits) -> None:
    problem, inputs = random_problem(seed)
    finite = all(np.isfinite(x).all() for _, x in inputs.items())
    if name == "cudnn-fp8" and not finite:
        return  # refused
    contract = in_any_order(get_contract(name))
    whole = interpret(contract, problem, inputs, arithmetic(contract, problem)).ends
    a = arithmetic(contract, problem)
    found = in_parts(AttentionCall(contract, problem, inputs), Interpreter(a, a.ends, limits)).found
    for output, ends in whole.items():
        for one, other in zip(ends, found[output], strict=True):
            np.testing.assert_array_equal(one, other, err_msg=output)


@pytest.mark.parametrize("limits", [BLOCKED, STACKED], ids=["blocked", "stacked"])
@pytest.mark.parametrize("seed", range(12))
def test_parts_have_the_bits_of_the_whole(seed: int, limits: Limits) -> None:
    problem, inputs = random_problem(seed)
    contract = get_contract(WINDOWS[seed % 2])
    whole = interpret(contract, problem, inputs, Bits()).outputs
    found = bits_in_parts(contract, problem, inputs, limits=limits)
    for output, array in whole.items():
        np.testing.assert_array_equal(array, getattr(found, output), err_msg=output)


@pytest.mark.parametrize("seed", [2, 3, 8, 20])
def test_parts_start_from_given_outputs(seed: int) -> None:
    problem, inputs = random_problem(seed)
    contract = get_contract("article")
    rng = np.random.default_rng(seed)
    shapes = problem.shapes()
    given = {n: rng.standard_normal(shapes[n]).astype(np.float32) for n in ("o", "lse")}
    a = arithmetic(contract, problem)
    whole = interpret(contract, problem, inputs, a, given=given).ends
    found = in_parts(
        AttentionCall(contract, problem, inputs, given), Interpreter(a, a.ends, BLOCKED)
    ).found
    for output, ends in whole.items():
        for one, other in zip(ends, found[output], strict=True):
            np.testing.assert_array_equal(one, other, err_msg=output)


@pytest.mark.parametrize("name", ["article", "bf16-flash", "bundled"])
def test_float64_attention_in_blocks_is_that_of_the_whole(name: str) -> None:
    problem = Problem(1, 2, 1, 192, 300, 32)
    rng = np.random.default_rng(1)
    shapes = problem.shapes()
    inputs = Inputs(**{n: _bf16(rng.standard_normal(shapes[n])) for n in ("q", "k", "v", "do")})
    contract = get_contract(name)
    whole = interpret(contract, problem, inputs, Double()).values
    call = AttentionCall(contract, problem, inputs)
    for limits in (BLOCKED, STACKED):
        found = in_parts(call, Interpreter(Double(), lambda x: (x,), limits)).found
        for output, x in whole.items():
            np.testing.assert_allclose(found[output][0], x, rtol=1e-12, atol=1e-13)


def test_windows_start_from_no_given_outputs() -> None:
    problem = Problem(1, 1, 1, 5, 7, 32)
    shapes = problem.shapes()
    inputs = Inputs(**{n: np.ones(shapes[n], np.float32) for n in ("q", "k", "v", "do")})
    given = {n: np.zeros(shapes[n], np.float32) for n in ("o", "lse")}
    with pytest.raises(ContractError, match="P = exp"):
        interpret(get_contract("bundled"), problem, inputs, Bits(), given=given)


def _normal(problem: Problem) -> Inputs:
    rng = np.random.default_rng(0)
    shapes = problem.shapes()
    return Inputs(**{n: _bf16(rng.standard_normal(shapes[n])) for n in ("q", "k", "v", "do")})


def test_a_block_that_is_forgotten_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(1, 1, 1, 192, 192, 32)
    inputs = _normal(problem)
    contract = get_contract("article")
    a = arithmetic(contract, problem)
    right = in_parts(
        AttentionCall(contract, problem, inputs), Interpreter(a, a.ends, BLOCKED)
    ).found
    monkeypatch.setattr(Sums, "add", lambda self, more: None)
    wrong = in_parts(
        AttentionCall(contract, problem, inputs), Interpreter(a, a.ends, BLOCKED)
    ).found
    assert not np.array_equal(right["dk"][0], wrong["dk"][0])


def test_query_heads_that_are_mixed_up_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(1, 6, 2, 20, 24, 32)
    inputs = _normal(problem)
    contract = get_contract("article")
    a = arithmetic(contract, problem)
    alone, right = (
        in_parts(AttentionCall(contract, problem, inputs), Interpreter(a, a.ends, limits)).found
        for limits in (ALONE, LIMITS)
    )
    for name in alone:
        np.testing.assert_array_equal(alone[name], right[name], err_msg=name)
    monkeypatch.setattr(parts, "one_by_one", lambda *args: [*one_by_one(*args)][:1])
    wrong = in_parts(AttentionCall(contract, problem, inputs), Interpreter(a, a.ends)).found
    assert not np.array_equal(right["dk"][0], wrong["dk"][0])


def _bf16(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
