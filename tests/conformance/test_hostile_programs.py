"""Programs and files that attack the judge: each is a verdict or one line, and never a hang."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dmverify.conformance import process
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.process import ProcessKernel
from dmverify.conformance.process.child import Child
from dmverify.conformance.report.served import served as served_of
from dmverify.conformance.three_steps import run_cases
from dmverify.conformance.verdict import Verdict
from dmverify.errors import HarnessError, KernelError, KernelTimeoutError
from tests.conformance.asking import CASE, judged

PATIENT = 86400.0  # seconds: nothing here hangs, so the clock decides nothing
EXAMPLE = Path(process.__file__).parent / "example.py"

# What the example does instead of answering a backward call, and what is said about it.
ATTACKS = {
    "pipe": ("os.mkfifo(out)", "no plain file"),
    "endless": ("os.symlink('/dev/zero', out)", "no plain file"),
    "folder": ("os.mkdir(out)", "no plain file"),
    "huge": ("open(out, 'w').truncate(10**11)", "100000000000 bytes"),
    "inputs-pipe": (
        "os.remove(asked['inputs']); os.mkfifo(asked['inputs'])",
        "the inputs file must not change",
    ),
    "deep": ("print('[' * 10**5)", "JSON object"),
    "long": ("print('x' * 10**7)", "more than 1048576 bytes"),
    "flood": ("[print('{}') for _ in range(10**6)]", "repeats the id"),
}


def server(folder, line):
    return ProcessKernel(served(folder, line), timeout=PATIENT)


def served(folder, line):
    text = EXAMPLE.read_text()
    mark = "    print(json.dumps"
    attack = f"    out = asked.get('outputs')\n    if asked['op'] == 'backward':\n        {line}\n"
    after = attack + "        answer = lambda asked: {}\n" + mark
    path = folder / "server.py"
    path.write_text(text.replace(mark, after))
    return shlex.join([sys.executable, str(path)])


@pytest.mark.parametrize("name", ATTACKS)
def test_a_process_cannot_hang_or_fill_its_judge(name, tmp_path):
    line, says = ATTACKS[name]
    with contextlib.closing(server(tmp_path, line)) as kernel:
        finding = judged(kernel)["run"]
    assert finding.verdict is Verdict.ERROR
    assert says in finding.reason


def test_two_answers_to_one_question_are_noticed(tmp_path):
    line = "print(json.dumps({'id': asked['id'], 'ok': True}))"
    with contextlib.closing(
        server(tmp_path, f"save(out, attend(asked['problem'], **load(asked['inputs']))); {line}")
    ) as kernel:
        finding = judged(kernel)["repeat-whole"]
    assert "before 'supports' was asked" in finding.reason or "repeats the id" in finding.reason


LEAVES = (
    "c = __import__('subprocess').Popen(['sleep', '3600'], start_new_session=True); "
    "open({note!r}, 'a').write(f'{{c.pid}} ')"
)
ANSWERS = "save(out, attend(asked['problem'], **load(asked['inputs'])))"
DEADS = {
    "and dies": ("; os._exit(4)", 5, "exited with code 4"),
    "and is killed": ("; os.kill(os.getpid(), 9)", 5, "killed by SIGKILL"),
    "and answers": (f"; {ANSWERS}", 0, "1 answers"),
}


@pytest.mark.parametrize("name", DEADS)
def test_who_leaves_the_group_and_keeps_stdout_is_not_waited_for(name, tmp_path):
    """The command ends while a process that holds its kernel's stdout lives on."""
    more, code, says = DEADS[name]
    note = tmp_path / "pids"
    command = served(tmp_path, LEAVES.format(note=str(note)) + more)
    words = [sys.executable, "-m", "dmverify", "run", f"proc:{command}", str(tmp_path / "r")]
    words += ["--case", CASE, "--contract", "bf16-math"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        pids = [int(word) for word in note.read_text().split()]
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    finally:
        for pid in map(int, note.read_text().split()):
            os.kill(pid, signal.SIGKILL)
    said = done.stdout + done.stderr
    assert says in said
    assert done.returncode == code  # 5 without an answer: nothing ran


def test_a_process_that_does_not_read_is_a_timeout(tmp_path):
    """Its input fills, so that the question itself cannot be sent."""
    child = Child(f"{sys.executable} -c 'import time; time.sleep(3600)'")
    with pytest.raises(KernelTimeoutError):
        child.ask("x" * (1 << 20), what="'forward'", timeout=0.5)
    child.end()


def test_a_full_disk_of_the_judge_is_no_verdict(tmp_path, monkeypatch):
    """The run ends, nothing is noted, and the same command asks again."""
    out, asked = tmp_path / "r", [(CASE, "bf16-math")]
    with contextlib.closing(server(tmp_path, "0")) as kernel:
        full = os.statvfs_result((4096, 4096, 9, 0, 0, 9, 9, 9, 0, 255))
        with monkeypatch.context() as patch:
            patch.setattr(os, "statvfs", lambda _: full)
            with pytest.raises(HarnessError, match=r"0 bytes free .* TMPDIR"):
                run_cases(kernel, asked, out=out)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_bytes", no_room)
            with pytest.raises(HarnessError, match="No space left"):
                run_cases(kernel, asked, out=out)


def no_room(*_):
    raise OSError(28, "No space left on device")


def test_what_failed_on_the_judges_side_is_asked_again(tmp_path, monkeypatch):
    from dmverify.conformance import three_steps

    asked, out = [(CASE, "article"), ("lengths/n1@0", "article")], tmp_path / "r"
    with monkeypatch.context() as patch:
        patch.setattr(three_steps.Session, "backward", no_room)
        with pytest.raises(OSError, match="No space left"):
            run_cases(Simulation(), asked, out=out)
    assert run_cases(Simulation(), asked, out=out).unanswered == {}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"compiler": f"numpy {np.__version__}"', '"flags": 5', "flags are a list"),
        ('"compiler": f"numpy {np.__version__}"', '"device": 7', "made of texts"),
        ('["forward", "backward"]', "[{}]", "capabilities are among"),
        ('["forward", "backward"]', '["forward", "backward", "code"]', "capabilities are among"),
        ('"version": 1', '"version": 2, "conditions": ["poison"]', "each with a text"),
        ('"version": 1', '"version": 2, "contracts": ["article"]', "the contract among them"),
        ('"version": 1', '"version": True', "version 1 or 2"),
    ],
)
def test_a_greeting_of_other_types_is_refused(old, new, says, tmp_path):
    text = EXAMPLE.read_text()
    assert old in text
    path = tmp_path / "server.py"
    path.write_text(text.replace(old, new))
    with pytest.raises(KernelError, match=says):
        ProcessKernel(shlex.join([sys.executable, str(path)]))


def test_a_full_disk_in_a_verification_is_the_harness(tmp_path, monkeypatch):
    """An error, and not one of the kernel's."""
    with contextlib.closing(server(tmp_path, "0")) as kernel:
        monkeypatch.setattr(Path, "write_bytes", no_room)
        found = judged(kernel)
    assert {name: f.verdict for name, f in found.items()} == {"harness": Verdict.ERROR}
    assert "[DMV-HARNESS]" in found["harness"].reason
    assert str(served_of(found.values())) == "0 of 1 cases (1 without an answer)"


def test_a_command_of_other_bytes_keeps_its_verdict(tmp_path):
    """As does what it says: no control character reaches a report."""
    path = tmp_path / "server.py"
    path.write_text(EXAMPLE.read_text().replace('"example"', r'"\x1b[2Jbundled\n\u202e\ud800"'))
    words = [*map(os.fsencode, (sys.executable, "-m", "dmverify", "verify"))]
    words += [b"proc:" + os.fsencode(f"{sys.executable} {path} ") + b"\xff\xfe\x1b[2J"]
    words += [*map(os.fsencode, ("--case", CASE, "--check", "o", "--contract", "bf16-math"))]
    words += [b"--out", os.fsencode(tmp_path / "out"), b"--junit", os.fsencode(tmp_path / "j.xml")]
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    texts = [
        done.stdout,
        *((tmp_path / "out" / n).read_bytes() for n in ("report.json", "junit.xml")),
    ]
    for text in (*texts, (tmp_path / "j.xml").read_bytes()):
        assert all(letter.isprintable() or letter == "\n" for letter in text.decode())
        assert b"\\u001b" not in text
    assert json.loads(texts[1])["verdict"] == "conforms"
    ElementTree.fromstring(texts[2])
