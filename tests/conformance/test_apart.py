"""Kernels in a process of their own: what they do to it does not reach the judge, and no check is
lost that sees them in the judge's process."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import dmverify
from dmverify.cli import cli
from dmverify.conformance.adapter import Unsupported
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate
from dmverify.conformance.guards import laid_out, layout
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.process import ProcessKernel
from dmverify.conformance.resolve import resolve_kernel
from dmverify.conformance.runner import run
from dmverify.conformance.verdict import Verdict
from dmverify.errors import InputError
from dmverify.lab.mutants import MUTANTS, cheats
from tests.conformance.asking import CASE

HEAD = """
import atexit, ctypes, os, signal, sys
from dataclasses import replace
from dmverify.conformance.adapter import Unsupported
from dmverify.conformance.kernels.simulation import Simulation
class Wrong(Simulation):
    def backward(self, case):
        outputs = super().backward(case)
        return replace(outputs, dk=2 * outputs.dk)
"""

# A module whose kernel K is wrong, and does this to the process that it is in.
TRICKS = {
    "leaves": "atexit.register(os._exit, 0)\nclass K(Wrong): pass",
    "exit-codes": """
from dmverify.conformance import verdict
class K(Wrong):
    def backward(self, case):
        from dmverify.conformance.report import report
        for module in (verdict, report):
            if hasattr(module, "EXIT_CODES"):
                for key in module.EXIT_CODES:
                    module.EXIT_CODES[key] = 0
        return super().backward(case)
""",
    "compare": """
import numpy as np
from dmverify.conformance.checks import bands
right = bands.compare
bands.compare = lambda got, band: right(band.mid, band)
class K(Wrong): pass
""",
    "closes": """
class K(Wrong):
    def backward(self, case):
        sys.stdin.read()
        print("noise")
        os.chdir("/")
        ctypes.CDLL(None).printf(b"from C")
        sys.stdout.close()
        sys.stderr = None
        for number in (0, 1, 2):
            os.close(number)
        return super().backward(case)
""",
    "deaf": """
signal.signal(signal.SIGINT, signal.SIG_IGN)
class K(Wrong): pass
""",
}

# One that ends, or breaks, instead of answering.
ENDS = {
    "exits": ("os._exit(0)", "exited with code 0"),
    "quits": ("sys.exit(0)", "SystemExit: 0"),
    "crashes": ("os.kill(os.getpid(), signal.SIGSEGV)", "killed by SIGSEGV"),
    "interrupts": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
}
BODY = """
class K(Simulation):
    def backward(self, case):
        {}
"""


WORDS = ("verify", "theirs:K", "--case", CASE, "--check", "dk", "--json")


@pytest.fixture
def verified(tmp_path, monkeypatch):
    """Judges a kernel of some text on one case: exit code and report."""

    def judge(text):
        (tmp_path / "theirs.py").write_text(HEAD + text)
        monkeypatch.syspath_prepend(str(tmp_path))
        result = CliRunner().invoke(cli, WORDS)
        assert "theirs" not in sys.modules
        return result.exit_code, json.loads(result.stdout)

    return judge


@pytest.mark.parametrize("name", TRICKS)
def test_a_wrong_kernel_is_wrong_whatever_it_does_to_its_process(name, verified):
    code, report = verified(TRICKS[name])
    assert (code, report["verdict"]) == (1, "fails")


def test_what_a_kernel_does_at_its_end_is_not_the_commands_end(tmp_path):
    (tmp_path / "theirs.py").write_text(HEAD + TRICKS["leaves"])
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path.cwd())])}
    command = [sys.executable, "-m", "dmverify", *WORDS]
    done = subprocess.run(command, capture_output=True, env=env, check=False, text=True)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["verdict"] == "fails"


@pytest.mark.parametrize("name", ENDS)
def test_to_end_is_an_error_of_the_kernel(name, verified):
    line, says = ENDS[name]
    code, report = verified(BODY.format(line))
    assert (code, report["verdict"]) == (3, "error")
    assert says in json.dumps(report)


# What the judge's process would see of a kernel, its own process sees.
SEEN = ("stray-write", "aliasing", "late", "uninitialised", "torch-attention", "cached")


@pytest.mark.parametrize("name", SEEN)
def test_no_check_is_lost(name):
    made = cheats.MUTATIONS[name]
    kernel = resolve_kernel(f"{made.__module__}:{made.__name__}")
    assert type(kernel) is ProcessKernel
    case = generate("gaussian/spread-2@0", contract="article")
    checks = [CHECKS[one] for one in ("power-v", MUTANTS[name].check)]
    found = run(kernel, [case], checks=checks, emit=ignore)[-1]
    assert found.verdict is Verdict.FAILS


def shown(kernel, checks=None):
    case = generate("gaussian/spread-2@0", contract="article")
    rows = [CHECKS[name] for name in checks or CHECKS]
    return {f.check: f for f in run(kernel, [case], checks=rows, emit=ignore)}


class Shows(Simulation):
    """Machine code and builds that differ; it has no GPU."""

    def cubins(self):
        return {"forward": b"\x7fELF" + bytes(range(256))}

    def builds(self):
        return {"same": Simulation(), "fast": Doubled()}


class Doubled(Simulation):
    def backward(self, case):
        outputs = super().backward(case)
        return replace(outputs, dk=2 * outputs.dk)


class Stale(Simulation):
    """Its dump is of another run than its outputs."""

    def internals(self, case):
        found = super().internals(case)
        return replace(found, o32=found.o32 + 1)


class NotOutputs(Simulation):
    def backward(self, case):
        return super().forward(case)


def test_an_honest_kernel_is_told_the_same_in_both_processes():
    name = f"{Simulation.__module__}:{Simulation.__name__}"
    here, apart = (shown(resolve_kernel(name, in_process=x)) for x in (True, False))
    assert [one.keys() for one in (here, apart)] == [CHECKS.keys() - {"bits"}] * 2
    for check, due in here.items():
        found = apart[check]
        assert (found.verdict, found.reason) == (due.verdict, due.reason), check
        assert str(found.margin) == str(due.margin), check
    assert apart["own-work"].verdict is apart["row-sum"].verdict is Verdict.CONFORMS


def test_what_a_kernel_shows_travels():
    kernel = resolve_kernel(f"{__name__}:Shows")
    assert kernel.cubins() == Shows().cubins()
    found = shown(kernel, ["flags"])["flags"]
    assert found.verdict is Verdict.FAILS
    assert "build fast gives other bits of dk" in found.reason


def test_a_wrong_dump_and_a_wrong_form_are_rejected():
    assert shown(resolve_kernel(f"{__name__}:Stale"), ["dump"])["dump"].verdict is Verdict.FAILS
    found = shown(resolve_kernel(f"{__name__}:NotOutputs"), ["o"])
    assert found["format"].verdict is Verdict.FAILS
    assert "backward gives Forward" in found["format"].reason


class Tells(Simulation):
    """Declines, and says how its inputs lie in memory."""

    def supports(self, case):
        return Unsupported(json.dumps(layouts(case)))


def layouts(case):
    return {name: layout(array) for name, array in case.inputs.items()}


def test_inputs_lie_as_they_lie_in_the_case():
    kernel = resolve_kernel(f"{__name__}:Tells")
    for name in ("packed", "heads-first", "sparse-rows", "expanded", "misaligned", "far-heads"):
        case = generate(f"layout/{name}@0", contract="article")
        assert json.loads(kernel.supports(case).reason) == layouts(case)


@pytest.mark.parametrize("turned", [(), (0,), (1, 2), (0, 1, 2, 3)])
def test_numbers_stay_when_they_are_laid_out_anew(turned):
    array = np.flip(np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5), turned)
    for address in (0, 4, 252):
        laid = laid_out(np.ascontiguousarray(array), strides=array.strides, address=address)
        assert layout(laid) == {"strides": list(array.strides), "address": address}
        assert laid.tobytes() == array.tobytes()


def test_a_limit_or_a_program_needs_a_process():
    for name, timeout in (("simulation", 5.0), ("proc:true", None)):
        with pytest.raises(InputError, match="--in-process"):
            resolve_kernel(name, timeout=timeout, in_process=True)
    words = ("verify", f"{__name__}:Doubled", "--in-process", "--case", CASE, "--check", "dk")
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 1
    assert "--in-process" in result.output
    with pytest.raises(InputError, match="does not learn which case"):
        dmverify.verify(f"{__name__}:ById", cases=[CASE])


class ById(Simulation, dmverify.conformance.adapter.Stored):
    pass
