"""Wrong problems, tensors and contracts are refused with value, rule and fix."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dmverify.errors import ContractError, DmverifyError, InputError, UnknownNameError
from dmverify.spec.arithmetic import Exact
from dmverify.spec.attention import interpret
from dmverify.spec.case import Case, Inputs, Outputs
from dmverify.spec.contracts import (
    ARTICLE,
    BUNDLED,
    CONTRACTS,
    Online,
    Rows,
    Windows,
    get_contract,
)
from dmverify.spec.problem import SIZES, Problem

PROBLEM = Problem(1, 2, 1, 3, 5, 32)


def zeros(problem: Problem, **changes: object) -> dict[str, object]:
    shapes = problem.shapes()
    return {n: np.zeros(shapes[n], np.float32) for n in ("q", "k", "v", "do")} | changes


@pytest.mark.parametrize(
    "changes",
    [
        {"head_dim": 48},
        {"head_dim": 0},
        {"heads": 3, "kv_heads": 2},
        {"kv_heads": 0},
        {"queries": -1},
        {"softmax_scale": float("nan")},
        *({"causal": word} for word in ("top-left", "no", 0, 1, None, np.True_)),
        *({name: 64.0} for name in SIZES),
        *({name: True} for name in SIZES),
        *({name: word} for name in SIZES for word in ("64", None, 64 + 0j, np.float32(64))),
        *({"softmax_scale": word} for word in (True, np.True_, "0.125", 1j, [0.125])),
        *({"softmax_scale": word} for word in (10**400, -(10**400), Fraction(1, 10**400))),
    ],
)
def test_impossible_problems(changes):
    with pytest.raises(InputError) as caught:
        replace(PROBLEM, **changes)
    assert caught.value.exit_code == 2
    assert caught.value.fix in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((1, 3, 2, 32), np.float64),
        np.full((1, 3, 2, 32), 1.0 + 2.0**-9, np.float32),
        np.full((1, 3, 2, 32), 2.0**-140 + 2.0**-149, np.float32),
    ],
    ids=["float64", "not BF16", "subnormal not BF16"],
)
def test_inputs_are_bf16(wrong):
    with pytest.raises(InputError):
        Inputs(**zeros(PROBLEM, q=wrong))


def test_inputs_keep_nan_and_infinity():
    wild = np.full((1, 3, 2, 32), np.nan, np.float32)
    wild[0, 0, 0, 0] = -np.inf
    assert Inputs(**zeros(PROBLEM, q=wild)).q is wild


def test_a_case_checks_shapes():
    inputs = Inputs(**zeros(PROBLEM, k=np.zeros((1, 4, 1, 32), np.float32)))
    with pytest.raises(InputError, match="k with shape"):
        Case("x/y@0", "article", PROBLEM, inputs)


def test_outputs_check_dtype_and_shape():
    shapes = PROBLEM.shapes()
    right = {n: np.zeros(shapes[n], np.float32) for n in ("o", "lse", "dq", "dk", "dv")}
    assert Outputs(**right).require(PROBLEM)
    with pytest.raises(InputError):
        Outputs(**right | {"dk": right["dk"].astype(np.float64)}).require(PROBLEM)
    with pytest.raises(InputError):
        Outputs(**right | {"lse": right["lse"][:, :1]}).require(PROBLEM)


@pytest.mark.parametrize("name", [*CONTRACTS, "article:delta=stale", "bundled:ds_cast=zero-sum"])
def test_contract_names_round_trip(name):
    assert get_contract(name).name == name
    assert hash(get_contract(name)) == hash(get_contract(name))


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("artikel", UnknownNameError),
        ("article:delta=fresh", ContractError),
        ("article:delta", ContractError),
        ("article:window=64", ContractError),
        ("article:delta=associated", ContractError),
    ],
)
def test_unknown_contracts(name, error):
    with pytest.raises(error) as caught:
        get_contract(name)
    assert isinstance(caught.value, DmverifyError)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("contract", "changes"),
    [
        (BUNDLED, {"schedule": Windows(window=128)}),
        (BUNDLED, {"schedule": Windows(window=32), "ds_cast": "zero-sum"}),
        (ARTICLE, {"schedule": Online(operands="whole", p="e4m3", ds="bf16")}),
    ],
)
def test_fields_that_exclude_each_other(contract, changes):
    with pytest.raises(ContractError):
        replace(contract, **changes)


def test_bits_need_a_schedule():
    class Bits(Exact):
        exact_schedule = True

    with pytest.raises(ContractError, match="every order"):
        interpret(ARTICLE, PROBLEM, Inputs(**zeros(PROBLEM)), Bits())


@pytest.mark.parametrize(
    ("contract", "changes"),
    [
        (BUNDLED, {"k_block": 32}),
        (BUNDLED, {"q_block": 1}),
        (ARTICLE, {"schedule": Rows(tile=32), "ds_cast": "zero-sum"}),
    ],
)
def test_geometry_that_does_not_divide(contract, changes):
    with pytest.raises(ContractError):
        replace(contract, **changes)


@pytest.mark.parametrize(
    ("schedule", "wrong"),
    [
        (Rows, {"tile": 48}),
        (Rows, {"tile": 0}),
        (Rows, {"p_group": 3}),
        (Windows, {"window": 96}),
        (Windows, {"row_sum": "pairs"}),
        (Online, {"operands": "codes", "p": "bf16", "ds": "bf16"}),
        (Online, {"operands": "bf16", "p": "e5m2", "ds": "bf16"}),
        (Online, {"operands": "bf16", "p": "bf16", "ds": "tile-amax"}),
    ],
)
def test_schedules_refuse_sides_and_words_that_are_not(schedule, wrong):
    with pytest.raises(ContractError):
        schedule(**wrong)


def test_an_unknown_scale_rule():
    with pytest.raises(UnknownNameError):
        replace(ARTICLE, operand_rule="amx")


@pytest.mark.parametrize("name", ["article:", "article:delta=stale,delta=matched"])
def test_names_that_say_nothing_or_twice(name):
    with pytest.raises(ContractError):
        get_contract(name)


def test_a_name_shows_every_difference():
    other = replace(ARTICLE, schedule=Rows(tile=128), centre_k="none")
    assert other.name == "article:centre_k=none,tile=128"
    taken = replace(ARTICLE, schedule=Windows())
    assert taken.name == "article:schedule=windows,window=64,row_sum=quad"


@pytest.mark.parametrize("scale", [1e39, 1e-50, float("inf")])
def test_softmax_scales_that_float32_loses(scale):
    with pytest.raises(InputError):
        replace(PROBLEM, softmax_scale=scale)


def test_numbers_of_other_libraries_become_pythons():
    found = replace(PROBLEM, keys=np.int64(7), softmax_scale=np.float32(0.125))
    assert found == replace(PROBLEM, keys=7, softmax_scale=0.125)
    assert (type(found.keys), type(found.softmax_scale)) == (int, float)
    assert replace(PROBLEM, softmax_scale=Fraction(1, 8)).scale == 0.125
    assert replace(PROBLEM, softmax_scale=1).softmax_scale == 1.0
    assert replace(PROBLEM, softmax_scale=0).scale == 0.0


def test_interpret_checks_shapes():
    longer = Inputs(**zeros(replace(PROBLEM, keys=9)))
    with pytest.raises(InputError, match="k with shape"):
        interpret(ARTICLE, PROBLEM, longer, Exact())
