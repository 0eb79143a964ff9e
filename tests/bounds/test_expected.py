"""Expected errors against measured ones: the simulation's and the emulator's own outputs."""

import json
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from click.testing import CliRunner

from dmverify.cli import cli
from dmverify.conformance.accuracy import attention_in_float64, distance
from dmverify.conformance.contracts import resolve_contract
from dmverify.conformance.expect import expect_shape
from dmverify.conformance.families import generate, list_cases
from dmverify.errors import InputError
from dmverify.spec.arithmetic import Single
from dmverify.spec.arithmetic.tangent import SPREAD, Dual, Tangent, unit
from dmverify.spec.attention.run import interpret
from dmverify.spec.bounds.expected import OUTPUTS, expected
from dmverify.spec.contracts import CONTRACTS, get_contract
from dmverify.spec.formats import E4M3
from dmverify.spec.problem import Problem

SHAPE = "batch=2,heads=2,kv_heads=1,queries=160,keys=160,head_dim=64"
SEEDS = range(5)
CAPTURES = [
    "capture/minilm/layer0@0",
    "capture/minilm/layer3@0",
    "capture/minilm/layer5@0",
]


def measured(contract, case):
    truth = attention_in_float64(case)
    with np.errstate(all="ignore"):
        got = interpret(contract, case.problem, case.inputs, Single()).outputs
    found = dict(got.items())
    return {n: distance(n, found[n], truth[n]).rms for n in OUTPUTS if n in found}


def both(contract, ids, left_out=()):
    """Medians of expected and of measured errors, over cases; without the outputs left out."""
    stated = resolve_contract(contract)
    cases = [generate(one, contract=stated.name) for one in ids]
    estimates = [expected(stated, case.problem, inputs=case.inputs) for case in cases]
    errors = [measured(stated, case) for case in cases]
    due = {"o", "lse"} if not stated.gradients else set(OUTPUTS)
    told = {name for name in due if not any(one[name].reason for one in estimates)}
    assert told == due - set(left_out)
    return {
        name: (median(e[name].typical for e in estimates), median(m[name] for m in errors))
        for name in sorted(told)
    }


@pytest.mark.parametrize("contract", ["article", "article:delta=stale", "bundled", "upstream"])
@pytest.mark.parametrize(
    "family",
    ["gaussian/spread-1", "gaussian/spread-4", "offset/k-16", "offset/v-4", "outliers/channels"],
)
def test_within_a_quarter_of_the_measured_median(contract, family):
    found = both(contract, [f"{family},{SHAPE}@{seed}" for seed in SEEDS])
    for name, (due, got) in found.items():
        assert 0.75 <= due / got <= 1.25, (name, due, got)


EXAMPLES = sorted(str(path) for path in Path(__file__).parents[2].glob("examples/*.toml"))
OTHERS = ("bf16-flash", "bf16-math", "cudnn-fp8", "flash-3-fp8", "mxfp8", *EXAMPLES)
"""Contracts beside those above, each with shorter cases."""
SHORT = "batch=1,heads=2,kv_heads=1,queries=130,keys=130,head_dim=64"


def short(contract):
    return Path(contract).stem if contract.endswith(".toml") else contract


def without(contract, family):
    """Outputs of which there is no estimate: float32 decides, or keys keep a large offset."""
    if short(contract) in ("bf16-flash", "bf16-math"):
        return ("lse",)
    if family != "offset/k-16" or short(contract) == "int8_qk_fp8_pv":
        return ()
    return ("lse",) if short(contract) == "kv_cache_decode" else OUTPUTS


@pytest.mark.parametrize("contract", OTHERS, ids=short)
@pytest.mark.parametrize(
    "family", ["gaussian/spread-1", "offset/k-16", "offset/v-4", "outliers/channels"]
)
def test_every_contract_is_within_a_quarter_or_says_why_not(contract, family):
    ids = [f"{family},{SHORT}@{seed}" for seed in SEEDS[:2]]
    for name, (due, got) in both(contract, ids, without(contract, family)).items():
        assert 0.75 <= due / got <= 1.25, (name, due, got)


def test_every_contract_that_ships_is_tried():
    tried = {*OTHERS, "article", "bundled", "upstream"}
    assert tried == {*CONTRACTS, *EXAMPLES}
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize("contract", ["article", "bundled", "upstream", *OTHERS], ids=short)
def test_within_a_quarter_on_captures(contract):
    left_out = without(contract, "captures")
    for name, (due, got) in both(contract, CAPTURES, left_out).items():
        assert 0.75 <= due / got <= 1.25, (name, due, got)


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("constant-v/third@0", "by chance"),
        ("tagged/own@0", "few values"),
        ("rounding/ties@0", "second order"),
        ("tiny-amax/far-keys-95@1", "overflows"),
        ("rows/gap-64@1", "cancel"),
        ("rounding/signed-zeros@0", "few values"),
        ("duplicates/all@0", "again and again"),
        ("lengths/n1@0", "too few"),
        ("special/q-nan@0", "not finite"),
        ("lengths/no-keys@0", "no numbers"),
        ("gaussian/spread-64@0", "overflows"),
        ("gaussian/spread-16@0", "second order"),
    ],
)
def test_no_estimate_where_a_premise_fails(case, says):
    stated = get_contract("article")
    asked = generate(case, contract="article")
    found = expected(stated, asked.problem, inputs=asked.inputs)
    reasons = {one.reason for one in found.values()}
    assert any(says in reason for reason in reasons if reason)


PER_TENSOR = next(name for name in EXAMPLES if "per_tensor" in name)


@pytest.mark.parametrize("contract", ["article", PER_TENSOR], ids=short)
def test_elsewhere_within_three_times_or_no_estimate(contract):
    """Every seventh listed case of whatever family."""
    stated, estimates = resolve_contract(contract), 0
    for case_id in list_cases(seed=1)[::7]:
        case = generate(case_id, contract=stated.name)
        found = expected(stated, case.problem, inputs=case.inputs)
        told = {name for name, one in found.items() if not one.reason}
        got = measured(stated, case) if told else {}
        for name in told:
            assert 1 / 3 <= found[name].typical / got[name] <= 3, (case_id, name)
        estimates += len(told)
    assert estimates >= 50


def test_large_logits_leave_no_estimate_of_any_output():
    """One scale a tensor, keys a thousand times as large: LSE errs by 14 nats, and all are lost."""
    stated = resolve_contract(PER_TENSOR)
    asked = generate("future/larger@1", contract=stated.name)
    found = expected(stated, asked.problem, inputs=asked.inputs)
    assert all("logits err" in found[name].reason for name in OUTPUTS)


def test_an_estimate_of_another_recipe_would_be_seen():
    """The comparison can fail: delta of another mode."""
    ids = [f"offset/v-4,{SHAPE}@{seed}" for seed in SEEDS]
    stale, matched = both("article:delta=stale", ids), both("article", ids)
    assert matched["dq"][0] / stale["dq"][1] < 0.75


def test_lengths_beyond_what_is_evaluated_err_alike():
    """1024 tokens stand for more: measured at 2048."""
    problem = Problem(1, 1, 1, 2048, 2048, 64)
    stated = get_contract("article")
    found = expect_shape(stated, problem)
    assert found.evaluated.keys == 1024
    case = generate(
        "gaussian/spread-1,batch=1,heads=1,kv_heads=1,queries=2048,keys=2048,head_dim=64@0"
    )
    for name, got in measured(stated, case).items():
        assert 0.75 <= found.errors[name].typical / got <= 1.25, name


def test_most_is_what_most_elements_stay_below():
    stated = get_contract("article")
    case = generate(f"gaussian/spread-1,{SHAPE}@0", contract="article")
    found = expected(stated, case.problem, inputs=case.inputs)
    truth = attention_in_float64(case)
    with np.errstate(all="ignore"):
        got = interpret(stated, case.problem, case.inputs, Single()).outputs
    for name in ("o", "dq", "dk", "dv"):
        error = np.abs(getattr(got, name) - truth[name])
        size = np.sqrt(np.mean(truth[name] ** 2))
        due = np.quantile(error, 0.95) / size
        assert 0.75 <= found[name].most / due <= 1.25, name


def test_slopes_are_derivatives():
    """Each operation against a difference quotient."""
    draws = np.random.default_rng(0)
    a = Tangent()
    x, y = (Dual(draws.random((4, 5)) + 0.5, draws.standard_normal((4, 5))) for _ in "xy")
    step = 1e-6

    def moved(z):
        return a.array(z.value + step * z.slope)

    for name in ("add", "sub", "mul", "div", "maximum"):
        found = getattr(a, name)(x, y).slope
        ends = [getattr(a, name)(*pair).value for pair in ((moved(x), moved(y)), (x, y))]
        np.testing.assert_allclose(found, (ends[0] - ends[1]) / step, rtol=1e-4, atol=1e-4)
    for name in ("sqrt", "exp", "log", "exp2", "log2", "absolute", "negate"):
        found = getattr(a, name)(x).slope
        ends = getattr(a, name)(moved(x)).value - getattr(a, name)(x).value
        np.testing.assert_allclose(found, ends / step, rtol=1e-4, atol=1e-4)
    found = a.dot(x, y, over="tokens").slope
    ends = a.dot(moved(x), moved(y), over="tokens").value - a.dot(x, y, over="tokens").value
    np.testing.assert_allclose(found, ends / step, rtol=1e-4, atol=1e-4)


def test_a_rounding_by_chance_has_the_formats_unit():
    x = np.array([1.0, 1.875, 2.0, 448.0, 2.0**-7, 0.0])
    np.testing.assert_array_equal(unit(x, E4M3)[:5], [0.125, 0.125, 0.25, 32.0, 2.0**-9])
    slopes = np.stack([Tangent(seed).rounded(x, unit(x, E4M3)).slope for seed in range(2000)])
    width = np.minimum(unit(x, E4M3), SPREAD * x)
    np.testing.assert_allclose(slopes.std(0), width / SPREAD, rtol=0.1)
    assert (np.abs(slopes) <= width / 2).all()


def command(*words):
    return CliRunner().invoke(cli, ["expect", *words], prog_name="dmverify")


def test_the_command():
    found = command("bundled", "--shape", "1,16,8192,128", "--spread", "1", "--json")
    assert found.exit_code == 0
    rows = {row["output"]: row for row in json.loads(found.output)["outputs"]}
    assert rows.keys() == set(OUTPUTS)
    for row in rows.values():
        assert 0 < row["typical"] < row["most"]
        assert "the contract computes" in row["bound_relative_to"]
    shown = command("article", "--case", "gaussian/spread-64@0")
    assert shown.exit_code == 0
    assert "none" in shown.output
    assert command("article", "--shape", "1,2,3").exit_code == 2
    assert command("article", "--spread", "0").exit_code == 2


def test_a_spread_is_above_zero():
    with pytest.raises(InputError, match="above 0"):
        expect_shape(get_contract("article"), Problem(1, 1, 1, 64, 64, 32), spread=-1)
