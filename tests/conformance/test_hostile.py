"""Kernels that do in the judge's process what they should not: each is a verdict or one line."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import dmverify
from dmverify.cli import cli
from dmverify.conformance.adapter import Stored, Unsupported
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.runner import run
from dmverify.conformance.three_steps import run_cases
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.errors import InputError, KernelError
from dmverify.spec.recording import Provenance
from tests.conformance.asking import CASE, judged


class Short(Simulation):
    def backward(self, case):
        outputs = super().backward(case)
        return replace(outputs, dk=outputs.dk[:, :1])


class Exits(Simulation):
    def backward(self, case):
        sys.exit(0)


class Shows(Simulation):
    def internals(self, case):
        return 5


class Maybe(Simulation):
    def supports(self, case):
        return False


@pytest.mark.parametrize(
    ("kernel", "check", "verdict", "says"),
    [
        (Short, "format", Verdict.FAILS, "dk with shape (1, 1, 1, 64)"),
        (Exits, "run", Verdict.ERROR, "SystemExit: 0"),
        (Shows, "format", Verdict.FAILS, "internals gives int"),
        (Maybe, "format", Verdict.FAILS, "supports gives False"),
    ],
)
def test_an_answer_of_another_form_is_a_verdict(kernel, check, verdict, says):
    finding = judged(kernel())[check]
    assert finding.verdict is verdict
    assert says in finding.reason


def test_a_reason_cannot_steer_a_terminal():
    class Paints(Simulation):
        def supports(self, case):
            return Unsupported("clear\x1b[2J\x00\ud800 it")

    assert judged(Paints())["supported"].reason == "clear [2J   it"

    class Shouts(Simulation):
        def backward(self, case):
            raise RuntimeError("clear\x1b[2J\ud800 it")

    assert "clear [2J  it" in judged(Shouts())["run"].reason


def test_a_kernel_under_test_gets_no_ids():
    class Looks(Simulation, Stored):
        pass

    with pytest.raises(InputError, match="does not learn which case"):
        dmverify.verify(Looks(), cases=[CASE])
    with pytest.raises(InputError, match="does not learn which case"):
        run_cases(Looks(), [(CASE, "article")])


@pytest.mark.parametrize(
    ("member", "value"), [("contract", 7), ("info", {"kernel": "x"}), ("info", Provenance(7))]
)
def test_what_a_kernel_says_of_itself_is_typed(member, value):
    kernel = type("Odd", (Simulation,), {member: value})()
    with pytest.raises(KernelError, match=f"with {member}"):
        dmverify.verify(kernel, cases=[CASE])

    def broken(self):
        raise RuntimeError("no GPU")

    with pytest.raises(KernelError, match="RuntimeError: no GPU"):
        dmverify.verify(type("Odd", (Simulation,), {member: property(broken)})(), cases=[CASE])


def test_a_long_text_is_cut_and_one_that_cannot_be_had_is_said_to_be():
    class Long(Simulation):
        def supports(self, case):
            return Unsupported("x" * 10**6)

        info = Provenance("clear\x1b[2J" + "x" * 10**6)

    report = dmverify.verify(Long(), cases=[CASE])
    assert len(json.dumps(report.to_json())) < 10**5
    assert "\x1b" not in report.kernel

    class Shouts(Simulation):
        def backward(self, case):
            raise RuntimeError("y" * 10**6)

    reason = judged(Shouts())["run"].reason
    assert 1000 < len(reason) < 3000
    assert "rule: " in reason

    class Silent(Exception):
        def __str__(self):
            raise ValueError

    class Mumbles(Simulation):
        def backward(self, case):
            raise Silent

    assert "Silent, whose text raises" in judged(Mumbles())["run"].reason


@pytest.mark.parametrize("error", [GeneratorExit, SystemExit(0), BaseException("base")])
def test_no_exception_of_a_kernel_ends_a_run(error):
    class Raises(Simulation):
        def backward(self, case):
            raise error

    assert judged(Raises())["run"].verdict is Verdict.ERROR


QUITS = {
    "import": "sys.exit(0)",
    "constructor": "class K(Simulation):\n    def __init__(self):\n        sys.exit(0)",
    "info": "class K(Simulation):\n    info = property(lambda self: sys.exit(0))",
    "info-later": """class K(Simulation):
    asked = 0
    @property
    def info(self):
        self.asked += 1
        return super().info if self.asked < 3 else sys.exit(0)""",
}


@pytest.mark.parametrize("name", QUITS)
def test_to_quit_is_no_pass(name, tmp_path, monkeypatch):
    module = f"quits_{name.replace('-', '_')}"
    head = "import sys\nfrom dmverify.conformance.kernels.simulation import Simulation\n"
    (tmp_path / f"{module}.py").write_text(head + QUITS[name])
    monkeypatch.syspath_prepend(str(tmp_path))
    result = CliRunner().invoke(cli, ["verify", f"{module}:K", "--case", CASE])
    assert result.exit_code == 3
    assert "SystemExit" in result.stderr


class Rounds(Simulation):
    """Leaves flushing switched on, and notes whether it finds it so."""

    def __init__(self):
        self.found = []

    def backward(self, case):
        self.found.append(flushes())
        torch.set_flush_denormal(True)
        return super().backward(case)


def flushes():
    return bool(np.array([1e-40], np.float32)[0] * np.float32(0.5) == 0)


def test_the_judge_does_not_flush_because_the_kernel_does():
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU does not flush")
    torch.set_flush_denormal(False)
    kernel, seen = Rounds(), []

    def judge(check, evidence):
        evidence.session.backward()
        seen.append(flushes())
        return Finding(check, evidence.case.id, Verdict.CONFORMS)

    case = generate(CASE, contract="article")
    try:
        run(kernel, [case, case], checks=[replace(CHECKS["o"], judge=judge)], emit=ignore)
        assert kernel.found == [False, True, True, True]
        assert seen == [False, False]
        assert flushes()  # what it left is what its caller has
    finally:
        torch.set_flush_denormal(False)


class Prints(Simulation):
    def backward(self, case):
        sys.stdout.write("loading")
        return super().backward(case)


class Stops(Simulation):
    def backward(self, case):
        raise KeyboardInterrupt


def test_prints_stay_out_of_json_and_an_interrupt_is_no_verdict():
    words = ("verify", f"{__name__}:Prints", "--in-process", "--case", CASE, "--check", "o")
    assert "loading" not in CliRunner().invoke(cli, [*words, "--json"]).stdout
    words = ("verify", f"{__name__}:Stops", "--in-process", "--case", CASE, "--check", "o")
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 130
    assert result.stderr.startswith("[DMV-INTERRUPTED]")
