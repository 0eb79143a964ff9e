"""``tomograph`` on tensors that somebody brings: their K, V and dO, the form's queries."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from dmverify.cli import cli
from dmverify.conformance.families import generate
from dmverify.conformance.families.tomography.designs import design
from dmverify.conformance.families.tomography.setup import Setup
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.tomography.tomogram import tomograph
from dmverify.errors import InputError
from dmverify.spec.case import Case, Inputs
from dmverify.spec.formats import BF16
from tests.tomography.kernels import UNCENTRED, Uncentred

SIZES = "batch=2,heads=4,kv_heads=2,queries=150,keys=130,head_dim=32,causal=1"
STALE = "dmverify.lab.mutants.numeric:Stale"


def case(name="gaussian/spread-1", **changes):
    return replace(generate(f"{name},{SIZES}@0", contract="article"), **changes)


def written(path, **changes):
    given = case(**changes)
    np.savez(path, causal=True, **dict(given.inputs.items()))
    return path


def test_calls_have_the_keys_values_and_gradients_of_the_case():
    given = case()
    calls = design(Setup.on(given, runs=2), "article", offset=4.0)
    for call in calls:
        assert call.case.problem == given.problem
        assert np.array_equal(call.case.inputs.k, given.inputs.k)
        assert np.array_equal(call.case.inputs.v, BF16.round(given.inputs.v + np.float32(4)))
        live = (call.weights != 0).swapaxes(1, 2)[..., None]
        assert np.array_equal(call.case.inputs.do, np.where(live, given.inputs.do, 0))
        assert not np.array_equal(call.case.inputs.q, given.inputs.q)
    assert len({call.case.id for call in calls}) == len(calls)


@pytest.mark.parametrize("size", [2.0**-6, 1.0, 2.0**5])
def test_logits_have_the_spread_that_is_asked_for_whatever_the_size_of_keys(size):
    given = case()
    inputs = replace(given.inputs, k=given.inputs.k * np.float32(size))
    setup = Setup.on(replace(given, inputs=inputs), spread=2.0)
    made = design(setup, "article", offset=0.0)[0].case
    q, k = made.inputs.q[0, :, 0], made.inputs.k[0, :, 0]
    logits = q @ (k - k.mean(0)).T * made.problem.scale
    assert 1.2 < logits.std() < 3.3  # to the nearest power of two


@pytest.mark.parametrize("name", ["gaussian/spread-1", "outliers/channels", "offset/k-16"])
@pytest.mark.parametrize(("contract", "verdict"), [("article", "matched"), ("stale", "stale")])
def test_the_delta_is_told_on_tensors_of_a_case(name, contract, verdict):
    asked = "article" if contract == "article" else f"article:delta={contract}"
    found = tomograph(Simulation(), asked, setup=Setup.on(case(name), repeats=1))
    assert found.verdict == verdict, found.decision
    assert found.to_json()["setup"]["given"] == case(name).id


def test_the_probe_form_reads_them_too():
    found = tomograph(Uncentred(), UNCENTRED, setup=Setup.on(case(), form="probe", repeats=1))
    assert found.verdict == "matched", found.decision


def call(*words):
    return CliRunner().invoke(cli, ["tomograph", *map(str, words)], prog_name="dmverify")


def test_the_command_takes_a_file(tmp_path):
    path = written(tmp_path / "mine.npz")
    found = call("simulation", "--inputs", path, "--repeats", "1", "--json")
    assert found.exit_code == 0, found.output
    value = json.loads(found.stdout)
    assert value["setup"]["length"] == 150
    assert value["setup"]["given"].startswith("tensors/")
    wrong = call(STALE, "--inputs", path, "--repeats", "1")
    assert wrong.exit_code == 1, wrong.output
    assert "stale, but matched was promised" in wrong.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--length", "64"], "leave out length"),
        (["--heads", "2"], "leave out heads"),
        (["--full"], "causal"),
    ],
)
def test_what_the_file_says_is_not_said_again(tmp_path, words, says):
    found = call("simulation", "--inputs", written(tmp_path / "mine.npz"), *words)
    assert found.exit_code == 2
    assert says in found.output


def test_a_scale_without_a_file_is_refused():
    assert call("simulation", "--softmax-scale", "1").exit_code == 2


@pytest.mark.parametrize(
    "wrong", ["no dO", "codes for tensors", "NaN or infinity", "keys that are all alike"]
)
def test_what_has_no_row_sums_is_refused(wrong):
    given = case()
    tensors = dict(given.inputs.items())
    if wrong.startswith("NaN"):
        tensors["v"] = np.where(np.arange(32) == 3, np.float32(np.nan), tensors["v"])
    if wrong.startswith("keys"):
        tensors["k"] = np.ones_like(tensors["k"])
    scales = {"k": np.ones((1, 1, 1, 1), np.float32)} if wrong.startswith("codes") else {}
    bad = Case(
        given.id,
        given.contract,
        given.problem,
        Inputs(**tensors, scales=scales),
        backward=wrong != "no dO",
    )
    with pytest.raises(InputError, match=wrong):
        Setup.on(bad)
