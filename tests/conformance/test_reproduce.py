"""Repro lines of faults of state name what has to be asked before, and they repeat the failure."""

import shlex
from io import StringIO

from click.testing import CliRunner
from rich.console import Console

import dmverify
from dmverify.cli import cli
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.report.console import show
from dmverify.conformance.reproduce import LONGEST, Reproduced, reproduce
from dmverify.conformance.verdict import Verdict

MORE, FEWER = "gaussian/spread-1,queries=20,keys=40@0", "lengths/q129-k17,queries=20@0"
CASES = [(f"case{i}", "article") for i in range(40)]


class LeftOver(Simulation):
    """A workspace of the most keys so far; a call with fewer adds what lies behind them to dQ."""

    keys = 0

    def backward(self, case):
        outputs = super().backward(case)
        self.keys = max(self.keys, case.problem.keys)
        if case.problem.keys < self.keys:
            outputs.dq[...] += 1
        return outputs


class Sometimes(LeftOver):
    """Wrong in one process only: the one that has set the class up for it."""

    here = False

    def backward(self, case):
        self.keys = self.keys if Sometimes.here else 0
        return super().backward(case)


def needs(*names):
    """Fails after all of these."""
    asked = []

    def fails(before):
        asked.append(before)
        return set(names) <= {case for case, _ in before}

    return fails, asked


def test_what_fails_alone_needs_no_history():
    fails, asked = needs()
    assert reproduce(CASES, fails) == Reproduced()
    assert asked == [()]
    assert reproduce([], lambda before: False) == Reproduced()


def test_a_history_is_cut_to_what_it_needs():
    fails, asked = needs("case30")
    assert reproduce(CASES, fails) == Reproduced((CASES[30],))
    assert max(map(len, asked)) <= LONGEST
    fails, _ = needs("case38", "case39")
    assert reproduce(CASES, fails) == Reproduced((CASES[38], CASES[39]))
    fails, _ = needs("case25", "case39")
    assert {CASES[25], CASES[39]} <= set(reproduce(CASES, fails).before)


def test_what_does_not_come_back_is_said():
    fails, asked = needs("case3")
    assert reproduce(CASES, fails) == Reproduced(seen=False)
    assert [len(before) for before in asked] == [0, 1, 2, 4, 8, 16]
    fails, asked = needs("no case")
    assert not reproduce(CASES[:3], fails).seen
    assert [len(before) for before in asked] == [0, 1, 2, 3]


def test_the_line_of_a_fault_of_state_repeats_it():
    name = f"{__name__}:LeftOver"
    assert dmverify.verify(name, cases=[FEWER]).ok  # alone it conforms
    report = dmverify.verify(name, cases=[MORE, FEWER], reproduce=True)
    (dq,) = (summary for summary in report.checks if summary.id == "dq")
    assert dq.verdict is Verdict.FAILS
    assert dq.worst.case == FEWER
    assert dq.repro.endswith(f"--case {MORE} --case {FEWER}")
    program, *words = shlex.split(dq.repro)
    again = CliRunner().invoke(cli, [*words, "--check", "dq"])
    assert program == "dmverify"
    console = Console(file=StringIO(), width=120)
    show(report, console)
    said = f"state that other calls leave, since {FEWER} conforms alone and fails after {MORE}"
    assert said in console.file.getvalue()
    assert again.exit_code == 1
    assert "dq does not conform" in again.stdout


def test_a_fault_that_does_not_come_back_is_a_note(monkeypatch):
    monkeypatch.setattr(Sometimes, "here", True)
    name, words = f"{__name__}:Sometimes", {"cases": [MORE, FEWER], "in_process": True}
    report = dmverify.verify(name, **words, reproduce=True)
    assert report.exit_code == 1
    (note,) = report.notes
    assert f"fails on {FEWER} in this run; in a new process it does not" in note
    plain = dmverify.verify(name, **words)
    assert plain.notes == ()
