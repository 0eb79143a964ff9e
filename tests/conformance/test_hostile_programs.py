"""Programs and files that attack the judge: each is a verdict or one line, and never a hang."""

import contextlib
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dmverify.cli import cli
from dmverify.conformance import process
from dmverify.conformance.process import ProcessKernel
from dmverify.conformance.verdict import Verdict
from dmverify.errors import KernelError
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
    text = EXAMPLE.read_text()
    mark = "    print(json.dumps"
    attack = f"    out = asked.get('outputs')\n    if asked['op'] == 'backward':\n        {line}\n"
    after = attack + "        answer = lambda asked: {}\n" + mark
    path = folder / "server.py"
    path.write_text(text.replace(mark, after))
    return ProcessKernel(shlex.join([sys.executable, str(path)]), timeout=PATIENT)


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


def test_who_leaves_the_group_and_keeps_stdout_is_not_waited_for(tmp_path):
    line = "__import__('subprocess').Popen(['sleep', '4'], start_new_session=True); os._exit(4)"
    kernel = server(tmp_path, line)
    kernel._timeout = 1.0
    with contextlib.closing(kernel):
        assert judged(kernel)["run"].verdict in (Verdict.TIMEOUT, Verdict.ERROR)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"compiler": f"numpy {np.__version__}"', '"flags": 5', "flags are a list"),
        ('"compiler": f"numpy {np.__version__}"', '"device": 7', "made of texts"),
        ('["forward", "backward"]', "[{}]", "capabilities are among"),
    ],
)
def test_a_greeting_of_other_types_is_refused(old, new, says, tmp_path):
    text = EXAMPLE.read_text()
    assert old in text
    path = tmp_path / "server.py"
    path.write_text(text.replace(old, new))
    with pytest.raises(KernelError, match=says):
        ProcessKernel(shlex.join([sys.executable, str(path)]))


def test_a_path_that_cannot_be_written_is_no_fault_of_ours(tmp_path):
    (tmp_path / "file").write_text("")
    words = ["verify", "simulation", "--case", CASE, "--check", "o"]
    result = CliRunner().invoke(cli, [*words, "--out", str(tmp_path / "file" / "x")])
    assert result.exit_code == 3
    assert result.stderr.startswith("[DMV-FILE]")
    assert str(tmp_path) in result.stderr
