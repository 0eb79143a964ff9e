"""The GitHub action, run as a runner runs it: red with the cause, green after the fix."""

import os
import re
from pathlib import Path

import msgspec
import pytest
import yaml

import dmverify
from dmverify.ci.documents import read_document
from dmverify.ci.github import MOST, error_lines, summary
from tests.ci.runner import run_action

ROOT = Path(dmverify.__file__).parents[1]
ACTION = ROOT / "action.yml"
CASES = "--case lengths/n17@0 --in-process"
KERNELS = "made_up_kernels.attention"
WORKFLOWS = sorted((ROOT / "examples" / "github").glob("*.yml"))


@pytest.fixture
def act(tmp_path):
    """Runs the action in a folder of its own, where the made-up package can be imported."""
    paths = [str(ROOT / "tests" / "adoption"), str(ROOT)]

    def acted(fixed="", **inputs):
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        return run_action(
            ACTION,
            given,
            cwd=tmp_path,
            environment={"PYTHONPATH": os.pathsep.join(paths), "FIXED": fixed},
        )

    return acted


def test_red_then_green_then_compared(act, tmp_path):
    code, said, shown, outputs = act(kernel=f"{KERNELS}:shipped", arguments=CASES, out="red")
    assert code == 1, said
    error = re.search(r"^::error title=(.*?)::(.*)$", said, re.M)
    assert "dq%3A fails" in error[1]
    assert "%0Arepeat: dmverify verify" in error[2]
    assert shown.startswith("## ❌")
    assert "softmax scale" in shown
    assert outputs == {"report": "red/report.json"}
    assert (tmp_path / "red" / "report.html").exists()

    code, said, shown, _ = act(
        kernel=f"{KERNELS}:shipped",
        fixed="yes",
        arguments=CASES,
        out="green",
        baseline="red/report.json",
    )
    assert code == 0, said
    assert "::error" not in said
    assert "0 worse" in shown

    code, _, shown, _ = act(
        kernel=f"{KERNELS}:shipped",
        fixed="yes",
        arguments=f"{CASES} --check o",
        out="fewer",
        baseline="green/report.json",
    )
    assert code == 1
    assert "| verdict | " in shown


def test_a_recording_is_judged_without_its_kernel(act, tmp_path):
    from click.testing import CliRunner

    from dmverify.cli import cli

    folder = str(tmp_path / "recording")
    words = ["run", "simulation", folder, "--case", "lengths/n17@0"]
    assert CliRunner().invoke(cli, words).exit_code == 0
    code, said, shown, _ = act(recording="recording")
    assert code == 0, said
    assert "1 of 1 cases served" in shown


def test_shards_of_a_matrix_are_joined(act, tmp_path):
    cases = f"{CASES} --case constant-v/third@0"
    for number, due in enumerate((1, 0)):  # V is constant in the second case, and dQ zero
        arguments = f"{cases} --shard {number}/2"
        code, said, *_ = act(kernel=f"{KERNELS}:shipped", arguments=arguments, out=f"part-{number}")
        assert code == due, said
    code, said, *_ = act(parts="part-0 part-1", out="whole")
    assert code == 1, said
    assert "::error title=" in said
    assert read_document(tmp_path / "whole").served.asked == 2
    code, said, *_ = act(parts="part-0", out="part")
    assert code == 2
    assert "every shard" in said


def test_a_wrong_name_fails_the_action(act):
    code, said, shown, _ = act(kernel="no_such:Kernel", arguments="--in-process")
    assert code == 3
    assert "fix:" in said
    assert shown == ""


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({}, "0 of kernel, recording and parts"),
        ({"kernel": "simulation", "recording": "r"}, "2 of kernel, recording and parts"),
        ({"recording": "r", "contract": "article"}, "a contract is for a kernel"),
        ({"parts": "p", "contract": "article"}, "a contract is for a kernel"),
    ],
)
def test_no_input_is_left_out_silently(act, inputs, says):
    code, said, shown, _ = act(**inputs)
    assert code == 2
    assert says in said
    assert said.startswith("::error title=dmverify::")
    assert not shown


def test_no_more_annotations_than_github_shows(tmp_path):
    report = dmverify.verify(
        "dmverify.lab.mutants.numeric:doubled", cases=["lengths/n17@0"], in_process=True
    )
    report.write(tmp_path)
    document = read_document(tmp_path)
    failing = next(row for row in document.checks if row.verdict == "fails")
    many = msgspec.structs.replace(document, checks=(failing,) * 30)
    lines = list(error_lines(many))
    assert len(lines) == MOST
    assert all("\n" not in line for line in lines)
    assert summary(many).count("### dq on") + summary(many).count("### o on") == 30


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_gives_the_action_what_it_takes(path):
    known = yaml.safe_load(ACTION.read_text())["inputs"]
    jobs = yaml.safe_load(path.read_text())["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    ours = [step for step in steps if step.get("uses", "").startswith("OWNER/")]
    assert ours
    assert all(step["with"].keys() <= known.keys() for step in ours)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_s_commands_have_the_options_they_name(path):
    from click.testing import CliRunner

    from dmverify.cli import cli

    for verb, rest in re.findall(r"dmverify (gen|run|check|verify) ([^\n]*)", path.read_text()):
        text = CliRunner().invoke(cli, [verb, "--help"]).output
        for option in re.findall(r"--[\w-]+", rest):
            assert option in text
