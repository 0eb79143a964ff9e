"""elem needs the underflows of d - delta: without them a conforming answer is refused.

In this case a row's gradients are so small that d, delta and their difference, in units of codes,
round to subnormals of float32; the relative part of the bound is then less than one of those.
"""

import pytest

from dmverify.conformance.checks import CHECKS
from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate
from dmverify.conformance.resolve import resolve_kernel
from dmverify.conformance.runner import run
from dmverify.conformance.verdict import Verdict
from dmverify.spec.ledger.bounds import correction

CASE = "logit-size/logits-1e2@700019"
CONTRACT = "bundled:delta=shifted,ds_cast=nearest"


@pytest.fixture(scope="module")
def case():
    return generate(CASE, contract=CONTRACT)


def judged(case):
    """What the ledger says of the specification's own answer, its bits left aside."""
    checks = [CHECKS["ledger"]]
    (found,) = run(resolve_kernel("emulator"), [case], checks=checks, emit=ignore, use_bits=False)
    return found


def test_an_answer_that_underflows_conforms(case):
    found = judged(case)
    assert found.verdict is Verdict.CONFORMS
    assert found.margin > 0.1  # the term does not pass by being idle


def test_the_same_answer_is_refused_if_underflows_count_nothing(case, monkeypatch):
    monkeypatch.setattr(correction, "CENTRED_UNDERFLOWS", 0)
    found = judged(case)
    assert found.verdict is Verdict.FAILS
    assert found.reason == "term elem: 1 of 260 rows outside"
    assert 1 < found.margin < 2  # by the underflow, not by another error
