"""What a kernel does beside computing is found out by the check that is there for it."""

import pytest

from dmverify.conformance.checks import CHECKS
from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.runner import run
from dmverify.conformance.verdict import Verdict
from dmverify.lab.mutants import MUTANTS, cheats
from dmverify.lab.mutants.simulated import asked


def judged(kernel, case):
    found = run(kernel, [case], checks=CHECKS.values(), emit=ignore, use_bits=False)
    return {finding.check: finding for finding in found}


@pytest.mark.parametrize("name", cheats.MUTATIONS)
def test_a_cheat_is_found_out(name):
    kernel, (case,) = asked(name)
    finding = judged(kernel, case)[MUTANTS[name].check]
    assert finding.verdict is Verdict.FAILS, finding


def test_the_honest_kernel_is_not_accused():
    found = judged(Simulation(), asked("cached")[1][0])
    for name in cheats.MUTATIONS:
        assert found[MUTANTS[name].check].verdict is Verdict.CONFORMS


def test_what_more_exact_answers_miss_is_large():
    """Nearly every element of O leaves its interval, even if only the rounding of P is missing."""
    for name in ("exact-attention", "dequantised-attention"):
        kernel, (case,) = asked(name)
        finding = judged(kernel, case)["o"]
        outside = int(finding.reason.split()[0])
        assert outside > finding.judged / 3, finding.reason


def test_where_nothing_rounds_more_exact_is_the_same():
    case = generate("integers/balanced@0", contract="article")
    assert judged(cheats.DequantisedAttention(), case)["o"].verdict is Verdict.CONFORMS
