"""Case after case: what a listener hears, in which order, and what ends a run."""

import numpy as np
import pytest

from dmverify.conformance.events import CaseDone, CaseStarted, CheckDone, RunDone, RunStarted
from dmverify.conformance.pipeline import announced, each
from dmverify.conformance.verdict import Finding, Verdict


def finding(case, verdict=Verdict.CONFORMS):
    return Finding("o", case, verdict)


def test_a_listener_hears_of_every_step_in_order():
    heard = []
    work = [("a", [finding("a"), finding("a")]), ("b", [])]
    started = RunStarted("k", "article", 2)
    with announced(started, heard.append):
        found = list(each(work, heard.append))
    assert found == [finding("a")] * 2
    assert heard == [
        started,
        CaseStarted("a", 1),
        *[CheckDone(finding("a"))] * 2,
        CaseDone("a"),
        CaseStarted("b", 2),
        CaseDone("b"),
        RunDone(),
    ]


def test_a_finding_that_stops_ends_the_run_after_its_case():
    fails = finding("b", Verdict.FAILS)
    work = [("a", [finding("a")]), ("b", [fails, finding("b")]), ("c", [finding("c")])]
    heard = []
    found = list(each(work, heard.append, stops=lambda one: one.verdict is Verdict.FAILS))
    assert found == [finding("a"), fails, finding("b")]
    assert heard[-1] == CaseDone("b")


def test_findings_are_made_when_their_case_has_begun():
    heard = []

    def made(case):
        assert heard[-1] == CaseStarted(case, len(heard) // 3 + 1)
        yield finding(case)

    assert len(list(each(((case, made(case)) for case in "abc"), heard.append))) == 3


def test_a_run_that_breaks_is_not_said_to_be_over():
    heard = []
    with pytest.raises(ValueError, match="x"), announced(RunStarted("k", "", 1), heard.append):
        raise ValueError("x")
    assert heard == [RunStarted("k", "", 1)]


def test_what_is_judged_does_not_depend_on_the_callers_float_settings():
    def divides():
        yield finding(str(np.float32(1) / np.float32(0)))

    with np.errstate(all="raise"):
        assert [one.case for one in each([("a", divides())], lambda _: None)] == ["inf"]
