"""``dmverify.verify``, ``ledger``, ``bounds``: the names that users see."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dmverify
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.verdict import Verdict
from dmverify.errors import ContractError, InputError, KernelError, UnknownNameError
from dmverify.lab.mutants.cheats import EasyOnly
from dmverify.spec.contracts import get_contract
from dmverify.spec.ledger.bounds.derived import require_derived

SMALL = "batch=1,heads=1,kv_heads=1,queries=40,keys=40,head_dim=32"


def test_a_real_capture_conforms():
    report = dmverify.verify("simulation", cases=["capture/minilm/layer3@0"])
    assert report.ok
    assert all(0 <= report.margin[name] <= 1 for name in ("o", "dq", "dk", "dv", "ledger"))


def test_chosen_checks_and_contract():
    report = dmverify.verify(
        "simulation", "upstream:delta=stale", cases=["lengths/n65@0"], checks=["dk", "ledger"]
    )
    assert [check.id for check in report.checks] == ["dk", "ledger"]
    assert report.contract == "upstream:delta=stale"


def test_recorded_instructions_by_group():
    report = dmverify.verify("recorded-instructions", cases=["arithmetic"])
    assert report.ok
    assert {check.id for check in report.checks} == {"arithmetic"}


def test_a_kernel_that_serves_the_easy_cases_only_is_no_full_pass():
    cases = ["lengths/n1@0", "lengths/n2@0", "offset/v-16@0"]
    report = dmverify.verify(EasyOnly(), cases=cases, checks=["o"])
    assert (report.ok, report.served.asked, report.served.served) == (True, 3, 1)
    assert {row.family: row.declined for row in report.served.declined} == {
        "lengths": 1,
        "offset": 1,
    }
    report = dmverify.verify(EasyOnly(), cases=cases, checks=["o"], min_served=0.9)
    assert (report.ok, report.exit_code) == (False, 1)


def test_a_kernel_that_equals_everything_is_still_the_kernel():
    class Equal(Simulation):
        def __eq__(self, other):
            return True

        def __hash__(self):
            return hash("recorded-instructions")

    report = dmverify.verify(Equal(), cases=["lengths/n2@0"], checks=["o"])
    assert [subject.contract for subject in report.subjects] == ["article"]


def test_the_specification_is_never_judged_by_itself():
    with pytest.raises(InputError, match="something other than itself") as caught:
        dmverify.verify("emulator")
    assert caught.value.exit_code == 2


def test_a_contract_that_the_kernel_does_not_serve_is_no_pass():
    report = dmverify.verify("simulation", "bundled", cases=["lengths/n1@0"])
    assert not report.ok
    assert report.verdict is Verdict.UNSUPPORTED
    assert report.exit_code == 5


def test_a_check_that_is_named_twice_judges_once():
    once, twice = (
        dmverify.verify("simulation", cases=[f"lengths/n17,{SMALL}@0"], checks=["dq"] * count)
        for count in (1, 2)
    )
    assert [f.check for f in twice.findings] == [f.check for f in once.findings] == ["dq"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"kernel": "nope"}, UnknownNameError),
        ({"kernel": "no_such_module_here:x"}, KernelError),
        ({"kernel": object()}, KernelError),
        ({"contract": "nope"}, UnknownNameError),
        ({"contract": "article:delta=nope"}, ContractError),
        ({"contract": "article:window=3"}, ContractError),
        ({"level": "nope"}, UnknownNameError),
        ({"seed": -1}, InputError),
        ({"min_served": 1.1}, InputError),
        ({"min_served": float("nan")}, InputError),
        ({"cases": ["nope/x@0"]}, UnknownNameError),
        ({"cases": ["lengths/n1,head_dim=33@0"]}, InputError),
        ({"cases": ["not a case"]}, InputError),
        ({"cases": [object()]}, InputError),
        ({"checks": ["nope"], "cases": ["lengths/n1@0"]}, UnknownNameError),
        ({"kernel": "recorded-instructions", "cases": ["nope"]}, UnknownNameError),
        ({"kernel": Simulation}, KernelError),
        ({"level": None}, UnknownNameError),
        ({"min_served": "all"}, InputError),
        ({"cases": "lengths/n1@0"}, InputError),
        ({"cases": None}, InputError),
        ({"checks": "dq", "cases": ["lengths/n1@0"]}, InputError),
        ({"checks": [1], "cases": ["lengths/n1@0"]}, UnknownNameError),
        ({"inputs": "x.npz"}, InputError),
        ({"inputs": Path("x.npz")}, InputError),
        ({"inputs": [Path("no-such.npz")]}, InputError),
        ({"inputs": [3]}, InputError),
        ({"expect": "no-such.toml"}, InputError),
        ({"contract": Path("no-such.toml")}, InputError),
        ({"max_error": {"dQ": 1.0}}, InputError),
        ({"max_error": {"dq": float("nan")}}, InputError),
        ({"max_error": {"dq": -1.0}}, InputError),
        ({"max_error": {"dq": "0.1"}}, InputError),
        ({"max_error": ["dq"]}, InputError),
    ],
)
def test_wrong_arguments_are_typed_errors_with_a_fix(arguments, error):
    with pytest.raises(error, match="fix: ") as caught:
        dmverify.verify(**arguments)
    assert caught.value.exit_code in (2, 3)
    assert caught.value.rule
    assert caught.value.fix


@pytest.mark.parametrize("contract", ["article", "bundled"])
def test_bounds(contract):
    case = generate("gaussian/spread-2@0", contract=contract)
    rows = dmverify.bounds(get_contract(contract), case.problem, inputs=case.inputs)
    found = {(row.quantity, row.term): row for row in rows}
    assert all(0 <= row.median <= row.largest and row.cites for row in rows)
    assert ("row sum", "match") in found
    if contract == "bundled":
        assert found["o", "bits"].largest == 0
    else:
        assert 2**-10 < found["o", "store"].median < 2**-8
        assert 0 < found["dq", "order"].median < 1e-2


@pytest.mark.parametrize(
    ("contract", "named"),
    [
        (
            "cudnn-fp8",
            "schedule = online (tiles and running maxima are not stated, so P has no one basis)",
        ),
        ("mxfp8", "cast = blocks (dS has two codes, one a direction)"),
    ],
)
def test_what_has_no_closed_form_says_which_fields_are_in_the_way(contract, named):
    stated = get_contract(contract)
    case = generate(f"gaussian/spread-1,{SMALL}@0", contract=stated.name)
    rows = list(dmverify.bounds(stated, case.problem, inputs=case.inputs))
    for strength in ("closed form", "ledger"):
        (row,) = [row for row in rows if row.strength == strength]
        assert row.largest == np.inf
        assert row.unbounded == f"not derived for {named}"
    assert {row.quantity for row in rows if row.strength == "channels"} >= {"o", "dq"}
    with pytest.raises(ContractError, match=named.partition(" (")[0]):
        require_derived(stated)


def test_a_forward_alone_has_closed_forms_and_says_why_it_has_no_ledger():
    stated = get_contract("article:q_format=int8,k_format=int8,v_format=bf16,gradients=false")
    case = generate(f"gaussian/spread-1,{SMALL}@0", contract=stated.name)
    rows = list(dmverify.bounds(stated, case.problem, inputs=case.inputs))
    assert {row.quantity for row in rows if row.strength == "closed form"} == {"o", "lse"}
    (row,) = [row for row in rows if row.strength == "ledger"]
    assert row.unbounded == "not derived for gradients = false (there is no dS)"


def test_other_formats_have_ledgers_that_cite_what_they_are_by_definition():
    stated = get_contract("article:ds_format=e5m2,do_format=int8,delta=stale,store=fp16")
    case = generate(f"gaussian/spread-1,{SMALL}@0", contract=stated.name)
    rows = list(dmverify.bounds(stated, case.problem, inputs=case.inputs))
    found = {row.term: row for row in rows if row.strength == "ledger"}
    for term, stated_by in (("cast", "e4m3"), ("grad", "e4m3"), ("out", "bf16")):
        assert 0 < found[term].median < np.inf
        assert "definition" in found[term].lemmas
        assert not any(name.startswith(stated_by) for name in found[term].lemmas)
    assert "e4m3-error" in found["prob"].lemmas


def test_inputs_that_are_not_finite_have_no_closed_form():
    case = generate(f"special/v-nan,{SMALL}@0", contract="article")
    rows = dmverify.bounds(get_contract("article"), case.problem, inputs=case.inputs)
    assert [row.unbounded for row in rows if row.strength == "closed form"] == ["v is not finite"]


def test_bounds_of_nothing():
    case = generate("lengths/no-queries@0", contract="article")
    rows = dmverify.bounds(get_contract("article"), case.problem, inputs=case.inputs)
    assert all(row.largest == 0 or row.quantity in ("dk", "dv") for row in rows)


def test_ledger_is_public():
    assert dmverify.ledger.__module__.startswith("dmverify.spec.ledger")
    with pytest.raises(AttributeError, match="nothing_such"):
        dmverify.nothing_such  # noqa: B018
    assert {"verify", "ledger", "bounds"} <= set(dir(dmverify))


def test_importing_the_package_imports_no_library():
    code = (
        "import sys, dmverify; "
        "print([n for n in ('torch', 'numpy', 'flint', 'z3', 'rich') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_margins_do_not_depend_on_the_machines_float_settings():
    """The public entry works inside a strict numpy error state."""
    with np.errstate(all="raise"):
        assert dmverify.verify("simulation", cases=["lengths/q129-k17@0"]).ok
