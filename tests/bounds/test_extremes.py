"""Extremes: what the recorded sweep of 20,000 cases did, on a sample; and that it sees a fault."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from dmverify.cli import cli
from dmverify.spec.arithmetic import Bits, Exact, Single
from dmverify.spec.attention import interpret
from dmverify.spec.bounds import closed_form, measure
from dmverify.spec.case import Inputs
from dmverify.spec.contracts import get_contract
from dmverify.spec.ledger import Ledger
from dmverify.spec.problem import Problem
from dmverify.studies.bounds import extremes
from dmverify.studies.bounds.extreme_cases import contracts, extreme_case
from dmverify.studies.bounds.extremes import Tally, _outside, check, sweep
from dmverify.studies.bounds.records import EXTREMES
from tests.ledger.toy import bf16

SAMPLE = 212  # two of every contract, and a few


def test_a_sample_of_the_sweep_finds_nothing():
    tally = sweep(SAMPLE, seed=7)
    assert tally.cases == SAMPLE
    assert tally.violations == []
    assert tally.crashes == []
    assert all(reason for reason in tally.infinite)


def test_the_draws_reach_what_they_are_to_reach():
    cases = [extreme_case(number, seed=7)[0] for number in range(1000)]
    assert {case.contract for case in cases} >= {c.name for c in contracts()}
    scales = [abs(case.problem.scale) for case in cases]
    assert min(scales) < 1e-10
    assert max(scales) > 1e20
    assert any(not case.problem.mask().any(axis=1).all() for case in cases)
    tiny = [(np.abs(x) > 0) & (np.abs(x) < 2.0**-126) for c in cases for _, x in c.inputs.items()]
    assert any(x.any() for x in tiny)


def test_a_bound_that_is_too_small_is_a_violation(monkeypatch):
    made = extremes.ledger_of

    def halved(*arguments):
        book = made(*arguments)
        return replace(book, bounds={n: x * 2.0**-12 for n, x in book.bounds.items()})

    monkeypatch.setattr(extremes, "ledger_of", halved)
    assert sweep(60, seed=7).violations


def test_a_bound_without_a_reason_is_a_violation(monkeypatch):
    monkeypatch.setattr(Ledger, "reasons", lambda self, term: np.full(len(self.at), "", object))
    assert any("without a reason" in v["what"] for v in sweep(SAMPLE, seed=7).violations)


def test_an_exception_is_a_crash(monkeypatch):
    def stopped(*_, **__):
        raise OverflowError("math range error")

    monkeypatch.setattr(extremes, "closed_form", stopped)
    tally = Tally()
    check(0, 7, tally)
    assert [crash["what"] for crash in tally.crashes] == ["OverflowError('math range error')"]


@pytest.mark.parametrize(
    ("contract", "case", "overflows"),
    [
        ("article", "logits-1e4", False),
        ("bundled", "logits-1e2", False),
        ("bundled", "logits-1e4", True),
    ],
)
def test_the_command_shows_bounds_that_overflow(run_command, contract, case, overflows):
    shown = run_command(["bounds", contract, "--case", f"logit-size/{case},queries=9,keys=70@0"])
    assert ("says nothing" in shown) == overflows


@pytest.fixture
def run_command():
    def run(arguments):
        result = CliRunner().invoke(cli, arguments, prog_name="dmverify", catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    return run


def test_json_of_an_unbounded_term_is_null_with_its_reason(run_command):
    case = "logit-size/logits-1e4,queries=9,keys=70@0"
    rows = json.loads(run_command(["bounds", "bundled", "--case", case, "--json"]))["bounds"]
    for row in rows:
        assert (row["largest"] is None) == bool(row["unbounded"])
    assert any(row["largest"] is None for row in rows)


@pytest.mark.parametrize("number", range(24))
def test_delta_of_rows_that_see_no_key_is_inside_the_closed_form(number):
    """Shifted: such a row's delta is its dP at key 0, where exact attention has 0."""
    base = ("article", "bundled", "upstream")[number % 3]
    contract = get_contract(base, delta="shifted")
    problem = Problem(1, 1, 1, 20, 1 + number % 7, 32, causal=True)
    rng = np.random.default_rng(number)
    draw = {n: rng.standard_normal(problem.shapes()[n]) for n in ("q", "k", "v", "do")}
    draw["do"][:, :10] *= 10  # the largest gradients are of rows that see nothing
    inputs = Inputs(**{name: bf16(x) for name, x in draw.items()})
    with np.errstate(all="ignore"):
        arithmetic = Bits() if contract.bit_exact else Single()
        found = interpret(contract, problem, inputs, arithmetic).outputs.delta
        exact = interpret(
            replace(contract, delta="matched"), problem, inputs, Exact(frozenset({"operands"}))
        ).values["delta"]
    dead = ~problem.mask().any(axis=1)
    assert dead.any()
    assert np.abs(found[..., dead]).max() > 0
    form = closed_form("delta", contract, problem=problem, norms=measure(contract, problem, inputs))
    assert (np.abs(found - exact) <= form.value).all()
    assert form.value < 50 * np.abs(found).max()


def test_the_record_is_of_20000_cases_without_a_violation_or_a_crash():
    record = json.loads(EXTREMES.read_text())
    assert record["cases"] >= 20_000
    assert (record["violations"], record["crashes"]) == ([], [])
    assert record["bounds"]["ledger"] == record["cases"]
    assert record["infinite"]  # premises did fail, and said so


def test_a_value_that_is_nan_is_outside_and_a_bound_that_is_nan_is_said():
    nan, one = np.array([np.nan, 0.5]), np.array([1.0, 1.0])
    assert list(_outside("x", nan, one)) == ["x: 1 outside, at most inf times the bound"]
    assert list(_outside("x", one, nan)) == [
        "x: its bound is NaN",
        "x: 1 outside, at most 2 times the bound",
    ]
    assert list(_outside("x", one, one)) == []
