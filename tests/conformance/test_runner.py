"""The runner: events in order, and what a kernel does wrong as findings."""

from dataclasses import replace

import numpy as np
import pytest

from dmverify.conformance.adapter import Forward, Unsupported
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.events import (
    CaseDone,
    CaseStarted,
    CheckDone,
    RunDone,
    RunStarted,
    ignore,
)
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.runner import run
from dmverify.conformance.verdict import Verdict
from dmverify.errors import InputError, UnknownNameError
from dmverify.lab.probes.instructions import REPLAYS, judge_recordings
from dmverify.lab.probes.replay import Replay
from dmverify.spec.case import Inputs


class Bare:
    """A kernel that shows nothing but what it must."""

    contract = "article"

    def __init__(self):
        self.inner = Simulation()
        self.info = self.inner.info

    def supports(self, case):
        return self.inner.supports(case)

    def forward(self, case):
        return self.inner.forward(case)

    def backward(self, case):
        return replace(self.inner.backward(case), delta=None)


class Crashes(Bare):
    def backward(self, case):
        raise RuntimeError("device lost")


class WrongShape(Bare):
    def backward(self, case):
        outputs = super().backward(case)
        return replace(outputs, dk=outputs.dk[:, :-1])


class WrongType(Bare):
    def forward(self, case):
        answer = super().forward(case)
        return replace(answer, lse=answer.lse.astype(np.float64))


class Malformed(Bare):
    def __init__(self, forward=None, backward=None):
        super().__init__()
        self.answers = forward, backward

    def forward(self, case):
        return self.answers[0] or super().forward(case)

    def backward(self, case):
        return self.answers[1] or super().backward(case)


class NoAnswer(Bare):
    def forward(self, case):
        return None


class Declines(Bare):
    def supports(self, case):
        return Unsupported("no causal masks")


CASE = "lengths/q17-k129@0"


def found(kernel, *names, contract="article"):
    cases = [generate(name, contract=contract) for name in names or (CASE,)]
    return run(kernel, cases, checks=CHECKS.values(), emit=ignore)


def test_events_come_in_order():
    events = []
    cases = [generate(name, contract="article") for name in ("lengths/n1@0", "lengths/n2@0")]
    run(Simulation(), cases, checks=[CHECKS["o"], CHECKS["lse"]], emit=events.append)
    kinds = [type(event) for event in events]
    per_case = [CaseStarted, CheckDone, CheckDone, CaseDone]
    assert kinds == [RunStarted, *per_case, *per_case, RunDone]
    assert events[0] == RunStarted("simulation", "article", 2)
    assert events[5] == CaseStarted("lengths/n2@0", 2)


def test_every_contract_of_a_run_is_named():
    events = []
    cases = [generate("lengths/n1@0", contract=name) for name in ("article", "upstream", "article")]
    run(Simulation(), cases, checks=[CHECKS["o"]], emit=events.append)
    assert events[0] == RunStarted("simulation", "article, upstream", 3)


def test_tensors_that_are_no_arrays_are_refused():
    with pytest.raises(InputError, match="q of type list"):
        Inputs(q=[1.0], k=[1.0], v=[1.0], do=[1.0])


def test_what_a_kernel_does_not_show_is_unsupported():
    verdicts = {f.check: (f.verdict, f.reason) for f in found(Bare())}
    assert verdicts["delta"] == (Verdict.UNSUPPORTED, "the kernel returns no delta")
    assert verdicts["ledger"] == (Verdict.UNSUPPORTED, "the kernel shows no internals")
    assert verdicts["dk"][0] is Verdict.CONFORMS
    assert "bits" not in verdicts


@pytest.mark.parametrize(
    ("kernel", "check", "verdict", "says"),
    [
        (Crashes(), "run", Verdict.ERROR, "RuntimeError: device lost"),
        (WrongShape(), "format", Verdict.FAILS, "dk with shape"),
        (WrongType(), "format", Verdict.FAILS, "lse with dtype float64"),
        (NoAnswer(), "format", Verdict.FAILS, "forward gives NoneType"),
        (Malformed([1.0]), "format", Verdict.FAILS, "forward gives list"),
        (Malformed(Forward([1.0], None)), "format", Verdict.FAILS, "o of type list"),
        (Malformed(None, {"o": 1}), "format", Verdict.FAILS, "backward gives dict"),
        (Declines(), "supported", Verdict.UNSUPPORTED, "no causal masks"),
    ],
)
def test_what_goes_wrong_is_a_finding(kernel, check, verdict, says):
    (finding,) = found(kernel)
    assert (finding.check, finding.verdict) == (check, verdict)
    assert says in finding.reason


def test_a_check_that_crashes_loses_no_other():
    def crash(check, evidence):
        raise ZeroDivisionError("by zero")

    case = generate(CASE, contract="article")
    checks = [replace(CHECKS["o"], judge=crash), CHECKS["dk"]]
    findings = run(Simulation(), [case], checks=checks, emit=ignore)
    assert [f.verdict for f in findings] == [Verdict.ERROR, Verdict.CONFORMS]
    assert "ZeroDivisionError" in findings[0].reason


def test_recorded_instructions_are_judged(monkeypatch):
    findings = judge_recordings(["functions", "arithmetic"], emit=ignore)
    assert {f.verdict for f in findings} == {Verdict.CONFORMS}
    assert sum(f.judged for f in findings) > 100_000
    monkeypatch.setitem(REPLAYS, "functions", lambda: iter([Replay("map/ex2", 100, 1)]))
    (finding,) = judge_recordings(["functions"], emit=ignore)
    assert finding.verdict is Verdict.FAILS
    assert finding.reason == "map/ex2: 1 of 100 outputs differ"
    with pytest.raises(UnknownNameError, match="did you mean wgmma"):
        judge_recordings(["wgma"], emit=ignore)
