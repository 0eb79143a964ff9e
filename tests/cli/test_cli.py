"""The command line: outputs, JSON shapes, exit codes, one line for an error."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

import dmverify
from dmverify.cli import cli
from dmverify.cli.main import VERBS
from dmverify.conformance import subjects

ROOT = Path(dmverify.__file__).parents[1]
CASE = "lengths/q17-k129@0"
SCRIPT = "from dmverify.cli import main; main()"  # what pip installs as the command
WRONG = "dmverify.lab.mutants.numeric:doubled"


def call(*words):
    return CliRunner().invoke(cli, words, prog_name="dmverify")


def test_help_lists_every_verb():
    result = call("--help")
    assert result.exit_code == 0
    assert all(verb in result.stdout for verb in VERBS)
    for verb in VERBS:
        assert call(verb, "--help").exit_code == 0


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("contracts", {"article", "upstream", "bundled"}),
        ("kernels", {"simulation", "emulator", "recorded-instructions"}),
        ("checks", {"o", "lse", "dq", "dk", "dv", "delta", "row-sum", "ledger", "bits"}),
        ("families", {"gaussian", "lengths", "special"}),
        ("captures", {"minilm/layer3"}),
        ("studies", {"worked-row", "residuals"}),
    ],
)
def test_list(kind, names):
    result = call("list", kind, "--json")
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert rows.keys() == {kind}
    assert names <= {row["name"] for row in rows[kind]}
    assert all(name in call("list", kind).stdout for name in names)


def test_list_coverage_says_what_a_level_meets_and_what_not():
    result = call("list", "coverage", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)["coverage"]
    assert found["pairs"]["met"] == found["pairs"]["exist"]
    assert 0 < found["triples"]["met"] < found["triples"]["exist"]
    assert found["missing_pairs"] == []
    assert found["not_covered"]
    shown = call("list", "coverage").stdout
    for words in ("pairs of levels met", "queries to keys", "largest sizes", "not covered"):
        assert words in shown


def test_list_lemmas_or_none():
    assert json.loads(call("list", "lemmas", "--json").stdout).keys() == {"lemmas"}


def test_verify_conforms(tmp_path):
    junit = tmp_path / "deep" / "junit.xml"
    out = tmp_path / "out"
    result = call("verify", "simulation", "--case", CASE, "--junit", str(junit), "--out", str(out))
    assert result.exit_code == 0
    assert "simulation: conforms" in result.stdout
    ElementTree.parse(junit)
    assert json.loads((out / "report.json").read_text())["ok"] is True


def test_verify_json():
    result = call("verify", "simulation", "--case", CASE, "--json")
    value = json.loads(result.stdout)
    assert (value["ok"], value["kernel"], value["contract"]) == (True, "simulation", "article")
    assert {"o", "dk", "ledger"} <= {check["id"] for check in value["checks"]}


def test_verify_rejects_and_its_repro_line_repeats_it():
    result = call("verify", WRONG, "--case", CASE)
    assert result.exit_code == 1
    line = next(x for x in result.stdout.splitlines() if "repeat: dmverify verify" in x)
    words = line.split("repeat: dmverify ")[1].split()
    again = call(*words)
    assert again.exit_code == 1
    assert again.stdout == result.stdout


def repeated(result):
    """The words of the first repro line, and what they give."""
    line = next(x for x in result.stdout.splitlines() if "repeat: dmverify " in x)
    words = shlex.split(line.split("repeat: dmverify ")[1])
    return words, call(*words)


HANGS = """
import time
from dmverify.conformance.kernels.simulation import Simulation
class Hangs(Simulation):
    def backward(self, case):
        time.sleep(1e6)
"""


def test_the_repro_line_of_a_timeout_has_its_limit(tmp_path, monkeypatch):
    (tmp_path / "hanging.py").write_text(HANGS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.syspath_prepend(str(tmp_path))
    words, again = repeated(call("verify", "hanging:Hangs", "--case", CASE, "--timeout", "0.5"))
    assert words[-4:] == ["--timeout", "0.5", "--case", CASE]
    assert again.exit_code == 4


def test_the_repro_line_of_check_judges_the_recording(tmp_path):
    cases = ("--case", CASE, "--case", "lengths/n1@0")
    assert call("run", WRONG, str(tmp_path / "a b"), *cases).exit_code == 0
    words, again = repeated(call("check", str(tmp_path / "a b")))
    assert words == ["check", str(tmp_path / "a b"), "--case", CASE]
    assert again.exit_code == 1
    assert "on 1 of 1 cases" not in again.stdout
    assert "served 1 of 1 cases" in again.stdout
    assert call("check", str(tmp_path / "a b"), "--case", "lengths/n2@0").exit_code == 2


def test_the_repro_line_of_replay_replays():
    words, again = repeated(call("replay", CASE, "--kernel", WRONG))
    assert words[:2] == ["replay", CASE]
    assert again.exit_code == 1


def test_what_was_declined_in_a_recording_counts(tmp_path):
    easy = "dmverify.lab.mutants.cheats:EasyOnly"
    cases = ("--case", CASE, "--case", "lengths/n1@0")
    assert call("run", easy, str(tmp_path / "r"), *cases).exit_code == 0
    result = call("check", str(tmp_path / "r"))
    assert "conforms on 1 of 2 cases (declined in part: lengths)" in result.stdout
    assert result.exit_code == 0
    assert call("check", str(tmp_path / "r"), "--min-served", "0.9").exit_code == 1


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["verify", "simulation", "--min-served", "2"], 2, "--min-served"),
        (["verify", "nope"], 2, "[DMV-UNKNOWN]"),
        (["verify", "emulator"], 2, "something other than itself"),
        (["verify", "no_such_module_here:x"], 3, "[DMV-KERNEL]"),
        (["verify", "simulation", "--contract", "nope"], 2, "[DMV-UNKNOWN]"),
        (["verify", "simulation", "--contract", "article:x"], 2, "[DMV-CONTRACT]"),
        (["verify", "simulation", "--level", "nope"], 2, "[DMV-UNKNOWN]"),
        (["verify", "simulation", "--case", "nope"], 2, "[DMV-INPUT]"),
        (["verify", "simulation", "--seed", "x"], 2, "[DMV-INPUT]"),
        (["verify", "--nope"], 2, "No such option"),
        (["nope"], 2, "No such command"),
        (["list", "nope"], 2, "one of contracts"),
        (["list", "lemma"], 2, "did you mean lemmas"),
        (["list", "coverag"], 2, "did you mean coverage"),
        (["list", "coverage", "--level", "ful"], 2, "did you mean full"),
        (["list", "coverage", "--level", "soak"], 2, "has an end"),
        (["study", "nope"], 2, "[DMV-UNKNOWN]"),
        (["study", "worked-row", "--seeds", "a"], 2, "[DMV-INPUT]"),
        (["prove", "nope"], 2, "[DMV-UNKNOWN]"),
        (["bounds", "nope"], 2, "[DMV-UNKNOWN]"),
        (["replay", "nope/x@0"], 2, "[DMV-UNKNOWN]"),
    ],
)
def test_an_error_is_one_line_with_its_exit_code(words, code, says):
    result = call(*words)
    assert result.exit_code == code
    assert result.stdout == ""
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    if "[DMV" in result.stderr:
        assert len(result.stderr.strip().splitlines()) == 1
        assert "fix: " in result.stderr


def test_nothing_judged_is_no_pass():
    assert call("verify", "simulation", "--contract", "bundled", "--case", CASE).exit_code == 5


def test_an_internal_error_is_not_taken_for_a_verdict(monkeypatch):
    def crash(*_, **__):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(subjects, "judge_cases", crash)
    result = call("verify", "simulation", "--case", CASE)
    assert result.exit_code == 3
    assert "[DMV-INTERNAL] ZeroDivisionError: by zero" in result.stderr
    assert "Traceback" not in result.stderr
    assert "Traceback" in call("--debug", "verify", "simulation", "--case", CASE).stderr


def test_bounds():
    result = call("bounds", "article", "--case", CASE, "--json")
    value = json.loads(result.stdout)
    assert value["contract"]["name"] == "article"
    assert {"o", "dk", "row sum"} <= {row["quantity"] for row in value["bounds"]}
    assert "half a unit" in call("bounds", "article", "--case", CASE).stdout


def test_replay():
    result = call("replay", CASE)
    assert result.exit_code == 0
    assert "dk: dk[" in result.stdout
    assert json.loads(call("replay", CASE, "--json").stdout)["ok"] is True


def test_replaying_the_specification_gives_no_verdict():
    result = call("replay", CASE, "--kernel", "emulator")
    assert result.exit_code == 5
    assert "no verdict" in result.stderr


def test_study():
    result = call("study", "worked-row", "--quick", "--json")
    assert result.exit_code == 0
    assert isinstance(json.loads(result.stdout), dict)
    assert call("study", "worked-row", "--quick").stdout


def test_the_installed_command_runs():
    done = subprocess.run(
        [sys.executable, "-m", "dmverify", "verify", "simulation", "--contract", "x"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("[DMV-UNKNOWN] got contract 'x'")


@pytest.mark.parametrize("words", [(), ("--in-process",), ("-j", "2")])
def test_a_module_is_found_where_the_command_is_given(words, tmp_path):
    """Pytest finds it there, and the line that repeats a failure has to."""
    (tmp_path / "mine.py").write_text("from numpy_attention import Shortcut")
    (tmp_path / "numpy.py").write_text("raise ImportError('what is installed goes first')")
    asked = ["--case", "lengths/n17@0", "--case", "lengths/n2@0", "--check", "delta", *words]
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, "verify", "mine:Shortcut", *asked],
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'examples'}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "repeat: dmverify verify mine:Shortcut" in done.stdout
