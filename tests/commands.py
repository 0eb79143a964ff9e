"""The command line as tests call it."""

from click.testing import CliRunner, Result

from dmverify.cli.main import cli


def lab(*words: object) -> Result:
    """``dmverify lab WORDS``."""
    return CliRunner().invoke(cli, ["lab", *map(str, words)], prog_name="dmverify")


def merging(paths):
    """The words that name the records of shards."""
    return [word for path in paths for word in ("--merge", path)]
