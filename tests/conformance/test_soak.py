"""The level without end: what stops it, and that a stopped run is judged by what was found."""

import json
import math
import signal
import textwrap

import pytest
from click.testing import CliRunner

import dmverify
from dmverify.cli import cli
from dmverify.conformance import soak as module
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.events import CaseStarted, CheckDone, RunDone, RunStarted, ignore
from dmverify.conformance.families import list_families
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.runner import How
from dmverify.conformance.soak import soak
from dmverify.conformance.verdict import Element, Finding, Verdict
from dmverify.errors import InputError
from dmverify.lab.mutants.numeric import ScaleTwice

FEW = [CHECKS["o"], CHECKS["dk"]]


def stopped(kernel, after):
    """The kernel, and Ctrl-C instead of its answer number ``after``, counted from 0."""

    class Stopped(type(kernel)):
        calls = 0

        def backward(self, case):
            if self.calls == after:
                signal.raise_signal(signal.SIGINT)
            self.calls += 1
            return super().backward(case)

    return Stopped()


def test_ctrl_c_ends_it_with_what_was_found():
    report = dmverify.verify(stopped(Simulation(), 2), level="soak", checks=["o", "dk"])
    assert (report.ok, report.level) == (True, "soak")
    assert {check.cases for check in report.checks} == {2}
    assert report.notes == ("soak: stopped after 2 cases; the last was gaussian/spread-2@0",)


def test_what_was_wrong_before_ctrl_c_is_wrong():
    report = dmverify.verify(stopped(ScaleTwice(), 2), level="soak", checks=["o", "dk"])
    assert report.exit_code == 1
    assert report.worst("dk").verdict is Verdict.FAILS
    assert report.worst("dk").worst is not None


def test_nothing_judged_is_no_pass():
    report = dmverify.verify(stopped(Simulation(), 0), level="soak", checks=["o"])
    assert report.exit_code == 5


def test_a_kernel_that_raises_what_ctrl_c_raises_ends_without_a_verdict():
    class Raises(Simulation):
        def internals(self, case):
            raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        dmverify.verify(Raises(), level="soak", checks=["o"])
    assert signal.getsignal(signal.SIGINT) is before


def test_the_command_prints_the_report(tmp_path, monkeypatch):
    (tmp_path / "stops_itself.py").write_text(
        textwrap.dedent("""
        import signal
        from dmverify.lab.mutants.numeric import ScaleTwice
        class Kernel(ScaleTwice):
            def internals(self, case):
                signal.raise_signal(signal.SIGINT)
        class Second(ScaleTwice):
            calls = 0
            def backward(self, case):
                self.calls += 1
                if self.calls > 1:
                    signal.raise_signal(signal.SIGINT)
                return super().backward(case)
        nothing, one = Kernel(), Second()
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    words = ["--in-process", "--level", "soak", "--check", "dk", "--json"]
    result = CliRunner().invoke(cli, ["verify", "stops_itself:one", *words])
    assert result.exit_code == 1
    (check,) = json.loads(result.stdout)["checks"]
    assert (check["id"], check["cases"]) == ("dk", 1)
    assert CliRunner().invoke(cli, ["verify", "stops_itself:nothing", *words]).exit_code == 5


def test_time_ends_it(monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 1e-9)
    events = []
    found = soak(Simulation(), "article", seed=4, how=How(tuple(FEW), events.append), minutes=1)
    assert {finding.case for finding in found} == {"gaussian/spread-1@4"}
    assert events[0] == RunStarted("simulation", "article", None)
    assert isinstance(events[-1], RunDone)


def test_seeds_follow_each_other_and_what_needs_one_run_gets_one(monkeypatch):
    cases = {"gaussian": ("gaussian/spread-1",), "capture": ("capture/x",)}

    def listed(family=None, *, seed):
        return tuple(
            f"{text}@{0 if name == 'capture' else seed}"
            for name, texts in cases.items()
            if family in (None, name)
            for text in texts
        )

    monkeypatch.setattr(module, "list_cases", listed)
    monkeypatch.setattr(module, "list_families", lambda: list_families()[:1])
    assert module._ids(3, first=True) == ("gaussian/spread-1@3", "capture/x@0")
    cases.pop("capture")
    events = []
    once = [CHECKS["o"], next(check for check in CHECKS.values() if check.once)]
    kernel = stopped(Simulation(), 3)
    found = soak(kernel, "article", seed=3, how=How(tuple(once), events.append))
    started = [event for event in events if isinstance(event, CaseStarted)]
    assert started == [CaseStarted(f"gaussian/spread-1@{3 + n}", n + 1) for n in range(4)]
    assert [finding.check for finding in found].count(once[1].id) == 1
    assert [finding.check for finding in found].count("o") == 3


def test_of_what_conforms_the_worst_elements_are_kept():
    watch = module._Watch(ignore, end=math.inf)
    element = Element("o", (0,), 1.0, "0x3f80", 1.0, "0x3f800000", 0.5, 0.5, 1.5, 0.0)
    for margin in (0.2, 0.5, 0.5, 0.3, math.nan, 0.9, 2.0, 0.1):
        verdict = Verdict.FAILS if margin > 1 else Verdict.CONFORMS
        watch(CheckDone(Finding("o", "gaussian/spread-1@0", verdict, margin, worst=element)))
    watch(CheckDone(Finding("o", "gaussian/spread-1@1", Verdict.ERROR, worst=element)))
    kept = [finding.worst is not None for finding in watch.kept]
    assert kept == [True, True, False, False, False, True, True, False, True]


@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel": None, "level": "soak"},
        {"kernel": "recorded-instructions", "level": "soak"},
        {"kernel": "simulation", "level": "soak", "minutes": 0},
        {"kernel": "simulation", "level": "soak", "minutes": float("nan")},
        {"kernel": "simulation", "level": "smoke", "minutes": 1},
        {"kernel": "simulation", "level": "soak", "minutes": 1, "cases": ["lengths/n1@0"]},
    ],
)
def test_wrong_arguments(arguments):
    with pytest.raises(InputError, match="fix: "):
        dmverify.verify(**arguments)
