"""What a run takes: patterns of cases, an early end, and what it says of itself meanwhile."""

from dataclasses import replace

import pytest

import dmverify
from dmverify.cli.output import Pulse
from dmverify.conformance.events import CaseDone, CaseStarted, RunStarted
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.selection import choose_pairs, select_ids
from dmverify.conformance.verdict import Verdict
from dmverify.errors import UnknownNameError
from dmverify.lab.mutants.numeric import zeros


def choose(patterns, level, *, seed):
    return tuple(text for text, _ in choose_pairs(patterns, level, ("article",), seed=seed))


CASES = ("lengths/n2@0", "lengths/n1@0", "lengths/n15@0")


def test_a_pattern_means_what_matches_of_the_level_and_of_all_variants():
    long = choose(["long/*"], "smoke", seed=0)
    assert "long/many-heads@0" in long  # no level but full has it
    assert all(text.startswith("long/") for text in long)
    full = set(select_ids("full", seed=2))
    assert full <= set(choose(["*"], "full", seed=2))
    assert choose(["*/*"], "smoke", seed=0)[: len(select_ids("smoke", seed=0))] == select_ids(
        "smoke", seed=0
    )
    assert choose(["lengths/n1@0", "lengths/n[12]"], "smoke", seed=0) == CASES[1::-1]
    assert choose(["gaussian/spread-1*"], "soak", seed=5)
    assert choose([], "smoke", seed=0) == select_ids("smoke", seed=0)


def test_a_pattern_without_a_match_offers_names():
    with pytest.raises(UnknownNameError, match="did you mean lengths/") as caught:
        dmverify.verify("simulation", cases=["lenghts/*"])
    assert caught.value.exit_code == 2


def test_a_wrong_id_is_told_before_the_kernel_is_asked():
    class Untouched(Simulation):
        def supports(self, case):
            raise AssertionError

    with pytest.raises(UnknownNameError):
        dmverify.verify(Untouched(), cases=[CASES[0], "lengths/no-such@0"])


def judged(report):
    return list(dict.fromkeys(finding.case for finding in report.findings))


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_first_case_that_fails_ends_it(jobs):
    kernel = zeros
    report = dmverify.verify(kernel, cases=CASES, stop=True, jobs=jobs)
    assert judged(report) == [CASES[0]]
    assert report.verdict is Verdict.FAILS
    assert any("stopped after the first case" in note for note in report.notes)
    whole = dmverify.verify(Simulation(), cases=CASES, stop=True, jobs=jobs)
    assert (judged(whole), whole.notes) == (list(CASES), ())


def test_a_kernel_of_several_contracts_is_asked_each_case_under_one():
    class Several(Simulation):
        contracts = ("article:delta=shifted", "article", "article:delta=stale")

        def __init__(self):
            self.asked = {}

        def backward(self, case):
            self.asked.setdefault(case.problem, case.contract)
            outputs = super().backward(case)
            return replace(outputs, lse=-outputs.lse)  # for a repro line of each case

    kernel = Several()
    report = dmverify.verify(kernel, cases=["gaussian/*"], checks=["lse"])
    assert set(kernel.asked.values()) == set(kernel.contracts)
    (subject,) = report.subjects
    assert (subject.contract, "one of 3 contracts" in subject.judged_by) == ("article", True)
    lines = {subject.repro(finding).split("'")[1] for finding in report.findings}
    assert lines == set(kernel.contracts)
    one = Several()
    dmverify.verify(one, "article:delta=stale", cases=["gaussian/*"], checks=["lse"])
    assert set(one.asked.values()) == {"article:delta=stale"}


def test_what_is_expected_to_fail_does_not_end_it(tmp_path):
    path = tmp_path / "expected.toml"
    row = '[[expect]]\nverdict = "fails"\nreason = "zeros"\n'
    path.write_text(row + f'case = "{CASES[0]}"\n')
    report = dmverify.verify(zeros, cases=CASES, stop=True, expect=path)
    assert CASES[0] in judged(report)
    assert len(judged(report)) < len(CASES)


def test_a_run_without_a_bar_says_how_far_it_is():
    now = [0.0]
    pulse = Pulse(lambda: now[0])
    assert pulse.line() == ""
    pulse(RunStarted("mine", "article", 4))
    pulse(CaseStarted("lengths/n1@0", 1))
    now[0] = 30.0
    assert pulse.line() == "mine: 0 of 4 cases in 30 s, at lengths/n1@0"
    pulse(CaseDone("lengths/n1@0"))
    pulse(CaseStarted("lengths/n2@0", 2))
    now[0] = 90.0
    assert pulse.line() == (
        "mine: 1 of 4 cases in 1 min 30 s, at lengths/n2@0, about 4 min 30 s left"
    )
    pulse(RunStarted("endless", "article", None))
    pulse(CaseStarted("lengths/n1@7", 1))
    pulse(CaseDone("lengths/n1@7"))
    assert pulse.line() == "endless: 1 cases in 0 s, at lengths/n1@7"
