"""A verb's options arrive as one record, with the context and what else the verb takes."""

from dataclasses import dataclass

import click
import pytest
from click.testing import CliRunner

from dmverify.cli.records import as_record
from dmverify.late import object_at


@dataclass(frozen=True)
class Options:
    size: int
    as_json: bool


@click.command()
@click.argument("name")
@click.option("--size", type=int, default=3)
@click.option("--json", "as_json", is_flag=True)
@click.pass_context
@as_record(Options)
def sample(ctx: click.Context, name: str, options: Options) -> None:
    """Say what came."""
    click.echo(f"{ctx.info_name} {name} {options}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a"], "sample a Options(size=3, as_json=False)\n"),
        (["a", "--size", "5", "--json"], "sample a Options(size=5, as_json=True)\n"),
    ],
)
def test_options_arrive_as_a_record(words, said):
    assert CliRunner().invoke(sample, words).output == said


def test_its_help_is_the_verbs():
    assert "Say what came." in CliRunner().invoke(sample, ["--help"]).output


def test_a_field_without_an_option_is_an_error():
    lacking = click.command()(as_record(Options)(lambda options: None))
    assert isinstance(CliRunner().invoke(lacking, []).exception, KeyError)


def test_a_place_that_does_not_exist_is_an_error():
    assert object_at("dmverify.cli.records:as_record") is as_record
    with pytest.raises(ModuleNotFoundError, match="no_such"):
        object_at("dmverify.no_such:thing")
    with pytest.raises(AttributeError, match="no_such"):
        object_at("dmverify.cli.records:no_such")
