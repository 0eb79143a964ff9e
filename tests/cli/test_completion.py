"""A shell completes verbs, options and names: bash itself, told as docs/ci.md says."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import dmverify
from dmverify.cli import cli
from dmverify.cli.verbs import Verbs

ROOT = Path(dmverify.__file__).parents[1]
SCRIPT = """
eval "$(_DMVERIFY_COMPLETE=bash_source dmverify)"
complete -p dmverify >/dev/null || exit 9
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_dmverify_completion dmverify
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def bash(tmp_path):
    """What bash offers for the last of some words."""
    program = tmp_path / "dmverify"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dmverify "$@"\n')
    program.chmod(0o755)
    path = os.pathsep.join((str(tmp_path), os.environ["PATH"]))
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}

    def offers(*words):
        shell = shutil.which("bash")
        assert shell, "there is no bash to complete in"
        done = subprocess.run(
            [shell, "--norc", "-c", SCRIPT, "bash", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    return offers


@pytest.mark.parametrize(
    ("words", "due"),
    [
        (("dmverify", "ver"), ["verify"]),
        (("dmverify", "lab", "spread-l"), ["spread-loss"]),
        (("dmverify", "verify", "--execu"), ["--executor"]),
        (("dmverify", "verify", "--executor", ""), ["local", "ray"]),
        (("dmverify", "verify", "--check", "row-"), ["row-sum"]),
        (("dmverify", "verify", "--contract", "art"), ["article"]),
        (("dmverify", "verify", "simu"), ["simulation"]),
        (("dmverify", "nothing-of-ours"), []),
    ],
)
def test_bash_offers_what_there_is(bash, words, due):
    found = bash(*words)
    assert set(found) >= set(due) if due else found == []
    assert all(word.startswith(words[-1]) for word in found)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_is_told_how(shell):
    done = CliRunner().invoke(
        cli, prog_name="dmverify", env={"_DMVERIFY_COMPLETE": f"{shell}_source"}
    )
    assert "dmverify" in done.output
    assert "_DMVERIFY_COMPLETE" in done.output


def test_verbs_are_offered_without_importing_them():
    group = Verbs(name="x", package="nowhere", table={"one": ("missing", "One."), "two": ("", "")})
    found = group.shell_complete(click.Context(group), "o")
    assert [(one.value, one.help) for one in found] == [("one", "One.")]
