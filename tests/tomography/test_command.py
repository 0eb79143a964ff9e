"""``dmverify tomograph``: table, JSON, exit codes."""

import json

import pytest
from click.testing import CliRunner

from dmverify.cli import cli

SIZES = ["--length", "128", "--head-dim", "32", "--repeats", "1"]
LIAR = "dmverify.lab.mutants.numeric:zeros"
STALE = "dmverify.lab.mutants.numeric:Stale"


def call(*words):
    return CliRunner().invoke(cli, ["tomograph", *words, *SIZES], prog_name="dmverify")


def test_table():
    result = call("simulation", "--contract", "article:delta=stale")
    assert result.exit_code == 0
    assert "delta: stale as promised" in result.stdout
    for word in ("error bar", "correlation", "shortcut", "consistent, O in E4M3", "BF16"):
        assert word in result.stdout


def test_json():
    result = call("simulation", "--json")
    value = json.loads(result.stdout)
    assert (value["verdict"], value["promised"]) == ("matched", "matched")
    assert value["contract"] == "article"
    assert [scan["offset"] for scan in value["scans"]] == [0.0, 4.0]
    for scan in value["scans"]:
        assert scan["coefficients"].keys() == {"shortcut", "gradient", "store"}
        assert len(scan["rows"]) == 256
        assert scan["rows"][0].keys() == {"at", "value", "bar", "size"}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([STALE], 1, "stale, but matched was promised"),
        ([LIAR], 5, "undecided"),
        (["simulation", "--form", "probe"], 5, "unsupported"),
        (["nope"], 2, "[DMV-UNKNOWN]"),
        (["simulation", "--runs", "0"], 2, "[DMV-INPUT]"),
        (["simulation", "--form", "nope"], 2, "Invalid value"),
    ],
)
def test_exit_codes(words, code, says):
    result = call(*words)
    assert result.exit_code == code
    assert says in result.output
    assert "Traceback" not in result.output
