"""Every verb's help has an example, which parses; those that need no GPU and no minutes run."""

import shlex

import click
import pytest
from click.testing import CliRunner

from dmverify.cli import cli
from dmverify.cli.examples import EXAMPLES

RUN = (
    "verify",
    "list",
    "contract check",
    "contract fields",
    "contract guess",
    "bounds",
    "expect",
    "replay",
    "gen",
    "run",
    "check",
    "merge",
    "compare",
    "html",
    "github",
    "faults",
    "tomograph",
)
SHARD = "dmverify verify simulation --case lengths/n17@0 --shard {0}/2 --out part-{0}"


def leaves(command=cli, path=""):
    """Every verb that is no group, with its words."""
    if not isinstance(command, click.Group):
        return {path: command}
    context = click.Context(command)
    names = command.list_commands(context)
    found = [leaves(command.get_command(context, n), f"{path} {n}".strip()) for n in names]
    return {words: one for part in found for words, one in part.items()}


LEAVES = leaves()


def arguments(example):
    """The words of an example behind ``dmverify``, as a shell hands them on."""
    program, *words = shlex.split(example.partition(" > ")[0])
    assert program == "dmverify"
    return words


def parse(path, example):
    """Raises unless the example is one of the verb, with options and arguments that it has."""
    words = arguments(example)
    verb = path.split()
    assert words[: len(verb)] == verb
    LEAVES[path].make_context(path, words[len(verb) :])


def test_every_verb_has_an_example_and_every_example_a_verb():
    assert sorted(EXAMPLES) == sorted(LEAVES)


@pytest.mark.parametrize("path", LEAVES)
def test_its_help_shows_it_and_it_parses(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("report", "whole"):
        (tmp_path / folder).mkdir()
    command = LEAVES[path]
    shown = command.get_help(click.Context(command, info_name=path))
    assert EXAMPLES[path].split() == shown.rpartition("Example:")[2].split()
    parse(path, EXAMPLES[path])


@pytest.mark.parametrize(
    ("path", "example"),
    [
        ("gen", "dmverify gen out --lvel smoke"),
        ("gen", "dmverify list kernels"),
        ("html", "dmverify html nowhere"),
        ("bench", "dmverify bench a b c"),
    ],
)
def test_an_example_that_does_not_parse_is_noticed(path, example):
    with pytest.raises((click.UsageError, AssertionError)):
        parse(path, example)


def test_they_run_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    runner = CliRunner()
    for number in range(2):  # what the example of merge joins
        assert runner.invoke(cli, arguments(SHARD.format(number))).exit_code in (0, 5)
    for path in RUN:
        done = runner.invoke(cli, arguments(EXAMPLES[path]))
        assert done.exit_code == 0, (path, done.output)
