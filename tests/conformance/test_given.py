"""Gradients judged by the O and LSE that came with them, where a backward is called with these."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dmverify.conformance import process
from dmverify.conformance.adapter import Forward
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.checks.judgement import GRADIENTS
from dmverify.conformance.checks.margins import compare
from dmverify.conformance.evidence import Evidence
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.process import ProcessKernel
from dmverify.conformance.verdict import Verdict
from dmverify.lab.third_party.kernels.torch_sdpa import torch_math

EXAMPLE = Path(process.__file__).parent / "example.py"
CASES = (
    "gaussian/spread-2,heads=1,kv_heads=1@0",
    "offset/v-4,heads=1,kv_heads=1@0",
    "constant-v/third,heads=1,kv_heads=1@0",
    "cancelling-delta/offset-4,heads=1,kv_heads=1@0",
    "lengths/n2,heads=1,kv_heads=1@0",
)


def answered(kernel, case_id, contract="bf16-math"):
    case = generate(case_id, contract=contract)
    outputs = kernel.backward(case)
    return Evidence(case, Forward(outputs.o, outputs.lse), outputs)


def verdicts(evidence):
    return {name: CHECKS[name].judge(name, evidence).verdict for name in ("o", "lse", *GRADIENTS)}


def at_the_edge(evidence, name):
    """The gradient as far up as any forward allows."""
    most = evidence.bands[name].hi.astype(np.float32)
    return replace(evidence, outputs=replace(evidence.outputs, **{name: most}))


@pytest.fixture(scope="module")
def kernels():
    """Torch's composite operator, whose backward reads a stored P, and one in float64."""
    example = ProcessKernel(f"{sys.executable} {EXAMPLE}")
    yield torch_math(), example
    example.close()


@pytest.mark.parametrize("case_id", CASES)
def test_conforming_kernels_conform(kernels, case_id):
    for kernel in kernels:
        evidence = answered(kernel, case_id)
        assert set(verdicts(evidence).values()) == {Verdict.CONFORMS}


@pytest.mark.parametrize("name", GRADIENTS)
def test_an_error_within_what_any_forward_allows_is_rejected(name):
    right = answered(torch_math(), CASES[0])
    wrong = at_the_edge(right, name)
    assert (compare(getattr(wrong.outputs, name), right.bands[name]).margin <= 1).all()
    found = verdicts(wrong)
    assert found.pop(name) is Verdict.FAILS
    assert set(found.values()) == {Verdict.CONFORMS}


def test_a_wrong_forward_accuses_no_gradient():
    right = answered(torch_math(), CASES[0])
    wrong = replace(right, outputs=replace(right.outputs, o=2 * right.outputs.o))
    found = verdicts(wrong)
    assert found.pop("o") is Verdict.FAILS
    assert set(found.values()) == {Verdict.CONFORMS}


def test_a_backward_that_keeps_more_of_its_forward_is_judged_as_before():
    edge = at_the_edge(answered(Simulation(), "gaussian/spread-2@0", "article"), "dq")
    assert verdicts(edge)["dq"] is Verdict.CONFORMS
    assert "bands_of_backward" not in vars(edge)
