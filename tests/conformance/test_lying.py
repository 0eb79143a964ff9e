"""Every lie is found out by the check that is there for it, and the honest kernel by none."""

from dataclasses import replace

import numpy as np
import pytest

from dmverify.conformance.checks import CHECKS
from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.runner import run
from dmverify.conformance.verdict import Verdict
from dmverify.lab.mutants.cheats import CASE, LIES


def judged(kernel, case=CASE, contract="article", **options):
    cases = [generate(case, contract=contract)]
    return {f.check: f for f in run(kernel, cases, checks=CHECKS.values(), emit=ignore, **options)}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_found_out(name):
    lie = LIES[name]
    finding = judged(lie.kernel(), contract=lie.contract, use_bits=False)[lie.check]
    assert finding.verdict is Verdict.FAILS, finding


def test_the_honest_kernel_is_not_accused():
    found = judged(Simulation())
    for lie in LIES.values():
        assert found[lie.check].verdict is Verdict.CONFORMS


def test_what_more_exact_answers_miss_is_large():
    """Nearly every element of O leaves its interval, even if only the rounding of P is missing."""
    for name in ("exact-attention", "dequantised-attention"):
        finding = judged(LIES[name].kernel())["o"]
        outside = int(finding.reason.split()[0])
        assert outside > finding.judged / 3, finding.reason


def test_where_nothing_rounds_the_lie_is_the_truth():
    found = judged(LIES["dequantised-attention"].kernel(), "integers/balanced@0")
    assert found["o"].verdict is Verdict.CONFORMS


class Remembers(Simulation):
    """Right for inputs that it has seen before, by their numbers."""

    def __init__(self, *cases):
        self._seen = {case.inputs.q.tobytes() for case in cases}

    def backward(self, case):
        outputs = super().backward(case)
        known = case.inputs.q.tobytes() in self._seen
        return outputs if known else replace(outputs, dk=np.zeros_like(outputs.dk))


def test_a_kernel_that_knows_the_numbers_is_caught_by_a_fresh_seed_only():
    kernel = Remembers(generate(CASE, contract="article"))
    assert judged(kernel)["dk"].verdict is Verdict.CONFORMS
    fresh = CASE.replace("@0", "@8127346512")
    assert judged(kernel, fresh)["dk"].verdict is Verdict.FAILS
