"""Kernels as processes: what they do wrong is a verdict, and the next case is answered again."""

import os
import sys
import textwrap
from pathlib import Path

import pytest

import dmverify
from dmverify.conformance import process, tensors
from dmverify.conformance.checks import CHECKS
from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate
from dmverify.conformance.process import ProcessKernel
from dmverify.conformance.process.child import Child
from dmverify.conformance.runner import run
from dmverify.conformance.verdict import Verdict
from dmverify.errors import InputError, KernelError

EXAMPLE = Path(process.__file__).parent / "example.py"
CASES = ("lengths/n2@0", "lengths/n1@0")
CASES_17 = ("lengths/q17-k129@0",)
PATIENT = 86400.0  # seconds: whoever answers at all answers in time, however slow the machine is

# The example with one change: on the case with two queries it does the line that is named.
FAULTS = {
    "exit": ("os._exit(3)", "run", Verdict.ERROR, "exited with code 3"),
    "signal": ("os.kill(os.getpid(), 11)", "run", Verdict.ERROR, "killed by SIGSEGV"),
    "hang": ("__import__('time').sleep(1e6)", "run", Verdict.TIMEOUT, "no answer"),
    "print": ("print('debug: here')", "run", Verdict.ERROR, "JSON object"),
    "wrong-id": ("asked['id'] = 7", "run", Verdict.ERROR, "repeats the id"),
    "not-ok": ("asked['op'] = 'nothing'; asked['inputs'] = ''", "run", Verdict.ERROR, "exited"),
    "no-file": ("save = lambda path, x: None", "run", Verdict.ERROR, "complete safetensors file"),
    "half": (
        "save = lambda path, x: open(path, 'wb').write(b'\\x40' + bytes(20))",
        "run",
        Verdict.ERROR,
        "complete safetensors file",
    ),
    "inputs": ("open(asked['inputs'], 'ab').write(b'x')", "run", Verdict.ERROR, "must not change"),
    "missing": (
        "old = attend_; attend = lambda p, **x: {n: old(p, **x)[n] for n in ('o', 'lse')}",
        "format",
        Verdict.FAILS,
        "missing: dq, dk, dv",
    ),
    "shape": (
        "old = attend_; attend = lambda p, **x: (lambda y: y | {'o': y['o'][:, :1]})(old(p, **x))",
        "format",
        Verdict.FAILS,
        "o with shape",
    ),
    "nan": ("bf16 = lambda x: x * np.nan", "nan", Verdict.FAILS, "a number is due"),
}


def server(folder, line):
    """The example, with a line that is run in the second case's calls."""
    text = EXAMPLE.read_text()
    mark = "    print(json.dumps"
    assert mark in text
    change = "    globals().update(save=save_, attend=attend_, bf16=bf16_)\n"
    text = text.replace("for line in", "save_, attend_, bf16_ = save, attend, bf16\nfor line in")
    change += f"    if asked.get('inputs') and asked['problem']['queries'] == 2:\n        {line}\n"
    path = folder / "server.py"
    path.write_text(text.replace(mark, change + mark))
    return f"{sys.executable} {path}"


def judged(kernel, cases=CASES, checks=CHECKS):
    made = [generate(case, contract="bf16-math") for case in cases]
    return run(kernel, made, checks=[CHECKS[name] for name in checks], emit=ignore)


@pytest.fixture
def started():
    kernels = []

    def start(command):
        kernels.append(ProcessKernel(command, timeout=PATIENT))
        return kernels[-1]

    yield start
    for kernel in kernels:
        kernel.close()


def test_the_example_conforms(started):
    findings = judged(started(f"{sys.executable} {EXAMPLE}"), ("lengths/q17-k129@0",))
    assert {f.verdict for f in findings} == {Verdict.CONFORMS, Verdict.UNSUPPORTED}
    found = {f.check: f.verdict for f in findings}
    assert {found[name] for name in ("o", "lse", "dq", "dk", "dv", "batch", "refusal")} == {
        Verdict.CONFORMS
    }


def test_a_program_may_ignore_what_version_2_adds(tmp_path, started):
    path = tmp_path / "second.py"
    text = EXAMPLE.read_text()
    assert '"version": 1' in text
    path.write_text(text.replace('"version": 1', '"version": 2'))
    kernel = started(f"{sys.executable} {path}")
    found = {f.check: f for f in judged(kernel, CASES_17)}
    plain = {f.check: f for f in judged(started(f"{sys.executable} {EXAMPLE}"), CASES_17)}
    assert {n: f.verdict for n, f in found.items()} == {n: f.verdict for n, f in plain.items()}
    for check in ("poison", "stream", "instructions", "flags", "row-sum"):
        assert found[check].verdict is Verdict.UNSUPPORTED
    assert found["poison"].reason == "the kernel computes in another process"


@pytest.fixture
def hurry(monkeypatch):
    """A short wait for the answer that never comes, and patience for all others."""
    ask = Child.ask

    def asked(self, line, *, what, timeout):
        hangs = '"inputs"' in line and '"queries": 2' in line
        return ask(self, line, what=what, timeout=0.5 if hangs else PATIENT)

    monkeypatch.setattr(Child, "ask", asked)


@pytest.mark.parametrize("name", FAULTS)
def test_what_a_process_does_wrong_is_a_verdict(name, started, tmp_path, request):
    line, check, verdict, says = FAULTS[name]
    if name == "hang":
        request.getfixturevalue("hurry")
    kernel = started(server(tmp_path, line))
    findings = judged(kernel, checks=("o", "nan"))
    bad = [f for f in findings if f.case == CASES[0]]
    assert (check, verdict) in [(f.check, f.verdict) for f in bad], bad
    reason = next(f.reason for f in bad if f.check == check)
    assert says in reason
    if verdict is not Verdict.FAILS:
        assert "rule: " in reason
    # the next case is answered as if nothing had been
    good = {f.check: f.verdict for f in findings if f.case == CASES[1]}
    assert good == {"o": Verdict.CONFORMS, "nan": Verdict.CONFORMS}


def test_what_a_process_started_dies_with_it(tmp_path, started):
    """The pipe ends when its last holder is dead: were it to live, this would wait for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    line = (
        f"import subprocess; f = open({str(pipe)!r}, 'wb', 0); f.write(b'x'); "
        "subprocess.Popen(['sleep', 'infinity'], stdout=f); os._exit(3)"
    )
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    judged(started(server(tmp_path, line)), CASES[:1], ("o",))
    os.set_blocking(reader, True)
    with open(reader, "rb") as held:
        assert held.read() == b"x"


GREETINGS = {
    "silence": ("", "exited with code 0"),
    "noise": ("print('hello')", "JSON object"),
    "version": (
        'print(\'{"id": 1, "ok": true, "protocol": "dmverify-kernel", "version": 3}\')',
        "version 1 or 2",
    ),
    "endless": ("print('x' * (1 << 21))", "more than"),
}


@pytest.mark.parametrize("name", GREETINGS)
def test_a_bad_greeting_is_a_typed_error(name, tmp_path):
    line, says = GREETINGS[name]
    path = tmp_path / "server.py"
    path.write_text(textwrap.dedent(f"import sys\nsys.stdin.readline()\n{line}\n"))
    with pytest.raises(KernelError, match="fix: ") as caught:
        ProcessKernel(f"{sys.executable} {path}", timeout=PATIENT)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("name", "timeout", "error"),
    [("proc:", None, InputError), ("proc:./no-such-program", None, KernelError)],
)
def test_no_process(name, timeout, error):
    with pytest.raises(error, match="fix: "):
        dmverify.verify(name, timeout=timeout, cases=["lengths/n1@0"])


def test_stderr_is_quoted(tmp_path, started):
    line = "print('out of memory', file=sys.stderr); os._exit(9)"
    (finding,) = judged(started(server(tmp_path, line)), CASES[:1], ("o",))
    assert "its stderr ends: out of memory" in finding.reason


SLEEPER = """
from dmverify.conformance.kernels.simulation import Simulation
import os, time
class Sleeps(Simulation):
    def backward(self, case):
        print("noise on stdout")
        os.write(1, b"and past Python")
        if case.problem.queries == 2:
            time.sleep(1e6)
        return super().backward(case)
"""


def test_a_kernel_that_sleeps_for_ever_is_a_timeout(tmp_path, monkeypatch, hurry):
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(Path.cwd())]))
    monkeypatch.syspath_prepend(str(tmp_path))
    report = dmverify.verify("sleeper:Sleeps", timeout=PATIENT, cases=CASES, checks=["o"])
    assert {(c.id, c.verdict) for c in report.checks} == {
        ("run", Verdict.TIMEOUT),
        ("o", Verdict.CONFORMS),
    }
    assert report.exit_code == 4


def test_an_object_has_no_process():
    from dmverify.lab.mutants.numeric import zeros

    with pytest.raises(InputError, match=r"pkg\.module:object"):
        dmverify.verify(zeros, timeout=5)


def test_files_go_both_ways(tmp_path):
    case = generate("gaussian/spread-2@0")
    path = tmp_path / "inputs.safetensors"
    content = tensors.encode(case.inputs.items())
    path.write_bytes(content)
    back = tensors.read(path, largest=len(content), required=("q", "k", "v", "do"), optional=())
    assert all((back[name] == array).all() for name, array in case.inputs.items())
