"""Runs the steps of a composite action as GitHub's runner does, as far as ours need it.

Expressions are ``${{ inputs.x }}`` and ``${{ steps.x.outputs.y }}``, conditions ``inputs.x != ''``;
every step is a bash script with -e and pipefail, and a step after one that failed does not run.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

# The commands of the environment that the tests run in come first.
PATH = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
EXPRESSION = re.compile(r"\$\{\{\s*(inputs|steps)\.([\w.-]+)\s*\}\}")


def run_action(path, inputs, *, cwd, environment=()):
    """(exit code, stdout, step summary, outputs of the action)."""
    action = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    known = {name: row.get("default", "") for name, row in action["inputs"].items()}
    assert inputs.keys() <= known.keys()
    values = {f"inputs.{name}": value for name, value in (known | inputs).items()}
    summary, said, code = cwd / "summary.md", "", 0
    summary.touch()
    for number, step in enumerate(action["runs"]["steps"]):
        if code or not _holds(step.get("if"), values):
            continue
        output = cwd / f"output-{number}"
        output.touch()
        own = {key: _filled(text, values) for key, text in step.get("env", {}).items()}
        files = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            env=os.environ | PATH | dict(environment) | own | files,
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
        )
        code, said = done.returncode, said + done.stdout + done.stderr
        for line in output.read_text().splitlines():
            name, _, value = line.partition("=")
            values[f"steps.{step.get('id')}.outputs.{name}"] = value
    outputs = {name: _filled(row["value"], values) for name, row in action["outputs"].items()}
    return code, said, summary.read_text(encoding="utf-8"), outputs


def _filled(text, values):
    return EXPRESSION.sub(lambda match: values[f"{match[1]}.{match[2]}"], text)


def _holds(condition, values):
    if condition is None:
        return True
    name = re.fullmatch(r"(inputs\.[\w-]+) != ''", condition)[1]
    return values[name] != ""
