"""Failures that follow from others are told once, and only those."""

from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import dmverify
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.report.console import show
from dmverify.conformance.report.follow import followers
from dmverify.conformance.report.report import Report, Subject
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.lab.mutants.simulated import asked

CASE = "tagged/groups@0"


class Odd(Simulation):
    """O of every second query is far off, by another amount for each input."""

    rows = slice(0, None, 2)

    def backward(self, case):
        outputs = super().backward(case)
        o = outputs.o.copy()
        kind = float(np.sign(case.inputs.v.sum() + 0.5)) * (1 + case.inputs.v[0, 0, 0, 0] % 7)
        o[:, self.rows] += np.float32(64 * kind)
        return replace(outputs, o=o)


class Elsewhere(Odd):
    """Wrong in two rows of its own case; in the other rows too when it is asked something else."""

    first = None

    def backward(self, case):
        self.first = case.inputs.q.tobytes() if self.first is None else self.first
        same = case.inputs.q.tobytes() == self.first
        self.rows = slice(0, 2) if same else slice(0, None)
        return super().backward(case)


def text_of(report):
    stream = StringIO()
    show(report, Console(file=stream, width=120, highlight=False))
    return stream.getvalue()


def verdicts(report):
    return {s.id: s for s in report.checks if s.verdict is Verdict.FAILS}


def test_relations_on_elements_that_were_outside_follow():
    report = dmverify.verify(Odd(), cases=["gaussian/spread-1,batch=2,heads=4,kv_heads=2@0"])
    failed = verdicts(report)
    relations = failed.keys() & {"power-v", "signs-v", "signs-qk", "heads", "batch", "future"}
    assert len(relations) >= 2
    assert all(failed[name].follows == ("o",) for name in relations)
    assert failed["o"].follows == ()
    text = text_of(report)
    assert all(f"{name} does not conform" not in text for name in relations)
    line = next(x for x in text.splitlines() if x.startswith("also fail"))
    assert "from o: " in line
    assert all(name in line for name in relations)
    assert report.exit_code == 1


def test_relations_that_fail_elsewhere_stand_alone():
    case = "gaussian/spread-1,batch=2,heads=4,kv_heads=2@0"
    report = dmverify.verify(Elsewhere(), cases=[case])
    failed = verdicts(report)
    assert failed["o"].follows == ()
    alone = [name for name in ("signs-qk", "power-qk", "batch") if name in failed]
    assert alone
    assert all(failed[name].follows == () for name in alone)


@pytest.mark.parametrize(
    ("fault", "check", "follows"),
    [
        ("doubled", "sum-dv", ("dv",)),
        ("dead-rows-nan", "dead-rows", ("o", "dq")),
        ("dead-rows-nan", "nan", ("o", "dq")),
        ("neighbour-tile-scale", "ledger", ("row-sum-cast",)),
        ("wide-output", "o", ("format",)),
    ],
)
def test_checks_of_the_same_elements_follow(fault, check, follows):
    kernel, (case,) = asked(fault)
    found = verdicts(dmverify.verify(kernel, cases=[case.id]))
    assert found[check].follows == follows


def test_row_sums_follow_from_delta_where_it_is_wrong():
    kernel, (case,) = asked("delta-stale")
    found = verdicts(dmverify.verify(kernel, cases=[case.id]))
    assert found["row-sum-cast"].follows == ("delta",)
    assert found["columns"].follows == ("row-sum",)
    assert found["delta"].follows == ()


def test_nothing_follows_from_a_check_that_was_not_asked_for():
    kernel, (case,) = asked("dead-rows-nan")
    report = dmverify.verify(kernel, cases=[case.id], checks=["nan"])
    assert verdicts(report)["nan"].follows == ()
    assert "nan does not conform" in text_of(report)


def test_a_check_that_fails_alone_on_one_case_is_told_of_that_case():
    o = Finding("o", "a@0", Verdict.FAILS, 3.0)
    with_o = Finding("heads", "a@0", Verdict.FAILS, 9.0, follows=("o",))
    alone = Finding("heads", "b@0", Verdict.FAILS, 2.0, follows=("o",))
    assert followers([o, with_o, alone]) == {("heads", "a@0")}
    report = Report((Subject("k", "article", "bounds", (o, with_o, alone)),), "smoke", 0)
    summary = report.checks[1]
    assert summary.follows == ()
    assert summary.worst.case == "b@0"
    assert summary.failed == 2
