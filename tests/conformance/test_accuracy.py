"""How wrong an answer is, beside its verdict."""

import json
import math

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import dmverify
from dmverify.cli.main import cli
from dmverify.conformance.accuracy import (
    LARGEST,
    OPERAND,
    attention_in_float64,
    distance,
    read_limits,
)
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.verdict import Verdict
from dmverify.errors import InputError
from dmverify.lab.mutants.numeric import doubled
from dmverify.spec.attention.operands import padded

CASE = "gaussian/spread-2,queries=40,keys=70,head_dim=32@0"


@pytest.mark.parametrize("sizes", ["", "queries=700,keys=600", "queries=600,keys=700,causal=0"])
def test_the_reference_is_torchs_attention_with_its_autograd(sizes):
    """Small, and in blocks of queries."""
    case = generate(f"gaussian/spread-2,{sizes},head_dim=32@0" if sizes else CASE)
    q, k, v, do = (
        torch.from_numpy(x.astype(np.float64)).transpose(1, 2).requires_grad_()
        for _, x in case.inputs.items()
    )
    group = case.problem.group
    wide = (x.repeat_interleave(group, 1) for x in (k, v))
    mask = torch.from_numpy(case.problem.mask())
    o = torch.nn.functional.scaled_dot_product_attention(
        q, *wide, attn_mask=mask, scale=case.problem.scale
    )
    o.backward(do)
    found = attention_in_float64(case)
    for name, x in {"o": o, "dq": q.grad, "dk": k.grad, "dv": v.grad}.items():
        np.testing.assert_allclose(found[name], x.detach().transpose(1, 2), rtol=1e-9, atol=1e-12)


def test_a_doubled_output_is_wrong_by_itself():
    reference = np.array([4.0, -1.0, 0.5, 2.0])
    found = distance("o", (2 * reference).astype(np.float32), reference)
    assert found.rms == pytest.approx(1, rel=1e-6)
    root = math.sqrt((reference**2).mean())
    assert found.worst == pytest.approx(4 / root, rel=1e-6)
    assert found.ulp == 2**7  # 4 is off by 4, and a unit at 4 is 4 / 2^7


def test_lse_is_measured_in_nats():
    found = distance("lse", np.float32([100.5, 200]), np.array([100.0, 200.0]))
    assert found.worst == 0.5
    assert found.rms == pytest.approx(0.5 / math.sqrt(2))


@pytest.mark.parametrize(
    ("got", "reference", "rms"),
    [
        ([0, 0], [0, 0], 0.0),
        ([1, 0], [0, 0], math.inf),
        ([np.nan, 1], [1, 1], math.inf),
        ([np.nan, 1], [np.nan, 1], 0.0),
        ([1, 1], [np.nan, np.inf], math.nan),
        ([0, 1e30], [0, 2e30], 0.5),
    ],
)
def test_corners(got, reference, rms):
    with np.errstate(over="ignore"):
        found = distance("dq", np.float32(got), np.float64(reference)).rms
    assert found == pytest.approx(rms, nan_ok=True)


def test_a_conforming_kernel_can_be_far_from_attention():
    """V with an offset: the recipe's own rounding costs a third of dQ."""
    report = dmverify.verify("simulation", cases=["offset/v-16@0"])
    assert report.ok
    errors = {c.id: c.errors for c in report.checks if c.errors}
    assert errors.keys() == {"o", "lse", "dq", "dk", "dv", "delta"}
    assert errors["dq"].largest > 0.2
    assert errors["o"].contract < 0.01 < errors["dq"].median


def test_a_limit_makes_it_fail_and_names_the_case():
    limited = dmverify.verify("simulation", cases=[CASE, "offset/v-16@0"], max_error={"dq": 0.2})
    assert limited.verdict is Verdict.FAILS
    assert limited.exit_code == 1
    assert [c.id for c in limited.too_wrong] == ["dq"]
    assert limited.too_wrong[0].errors.case == "offset/v-16@0"
    assert dmverify.verify("simulation", cases=[CASE], max_error={"dq": 0.2}).ok


def test_a_wrong_kernel_is_as_far_from_its_contract_as_from_attention():
    errors = {c.id: c.errors for c in dmverify.verify(doubled, cases=[CASE]).checks if c.errors}
    assert errors["o"].largest == pytest.approx(1, rel=0.1)
    assert errors["o"].contract == pytest.approx(1, rel=0.01)


def test_a_case_too_large_for_the_reference_says_nothing_rather_than_something_wrong():
    case = generate("gaussian/spread-1,heads=1,queries=1,keys=1,head_dim=32@0")
    side = math.isqrt(LARGEST)
    object.__setattr__(case.problem, "queries", side + 1)
    object.__setattr__(case.problem, "keys", side + 1)
    assert attention_in_float64(case) is None


def test_many_heads_that_would_be_mostly_padding_say_nothing_either():
    case = generate("gaussian/spread-1,heads=1,queries=1,keys=1,head_dim=32@0")
    assert attention_in_float64(case) is not None
    object.__setattr__(case.problem, "batch", OPERAND // (32 * padded(1)) + 1)
    assert attention_in_float64(case) is None


@pytest.mark.parametrize("word", ["dq", "dq=", "dq=-1", "dq=0", "dq=nan", "x=1", "=1"])
def test_limits_that_are_none(word):
    with pytest.raises(InputError, match=r"dq=0\.1"):
        read_limits((word,))


def test_on_the_command_line():
    words = ["verify", "simulation", "--case", CASE]
    shown = CliRunner().invoke(cli, [*words, "--max-error", "dv=0.001"])
    assert shown.exit_code == 1
    assert "too far from attention: dv of simulation" in shown.output
    value = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
    by_id = {check["id"]: check["errors"] for check in value["checks"]}
    assert 0 < by_id["dq"]["median"] < 0.2
    assert by_id["nan"] is None


def test_the_reference_needs_no_kernel():
    case = generate(CASE, contract="article")
    answer = Simulation().backward(case)
    assert 0.01 < distance("dk", answer.dk, attention_in_float64(case)["dk"]).rms < 0.2
