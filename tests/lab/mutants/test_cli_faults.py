"""``dmverify faults`` from the outside: names, JSON, exit codes."""

import json

from click.testing import CliRunner

from dmverify.cli.main import cli
from dmverify.conformance.checks import CHECKS
from dmverify.lab.mutants import emulator
from dmverify.lab.mutants.answers import WITHOUT_BITS


def call(*args):
    return CliRunner().invoke(cli, ["faults", *args])


def test_json_of_two_faults():
    result = call("zeros", "row-sum-order", "--alarm-seeds", "1", "--json")
    assert result.exit_code == 0
    shape = json.loads(result.stdout)
    assert [row["id"] for row in shape["faults"]] == ["zeros", "row-sum-order"]
    assert [row["by"] for row in shape["faults"]] == ["o", "bits"]
    assert [row["killed_without_bits"] for row in shape["faults"]] == [True, False]
    assert shape["faults"][0]["public_rules"]["flashinfer"] is False
    checks = len(WITHOUT_BITS)
    assert checks > 10
    assert shape["false_positives"] == {"cases": 1, "checks": checks, "alarms": 0, "where": []}


def test_the_table_shows_what_bounds_cannot_see():
    result = call("row-sum-order", "--alarm-seeds", "1")
    assert result.exit_code == 0
    assert "every order of summation" in result.stdout
    assert "FlashInfer" in result.stdout


def test_markdown_has_the_counts():
    result = call("zeros", "row-sum-order", "--alarm-seeds", "1", "--markdown")
    assert "| dmverify | bits and bounds | 2 |" in result.stdout
    assert "| dmverify | bounds alone | 1 | 0 of 1 cases |" in result.stdout
    assert "| zeros | o | x | . |" in result.stdout


def test_a_survivor_exits_with_1(monkeypatch):
    nothing = emulator.EmulatorMutants({"zeros": emulator.Mutation()})
    monkeypatch.setattr(emulator, "EmulatorMutants", lambda: nothing)
    result = call("zeros", "--alarm-seeds", "1")
    assert result.exit_code == 1
    assert "not rejected by o: zeros" in result.stdout


def test_mutants_of_the_simulation_are_judged_by_checks_of_conduct_too():
    result = call("doubled", "fickle", "--kernel", "simulation", "--alarm-seeds", "1", "--json")
    assert result.exit_code == 0
    shape = json.loads(result.stdout)
    assert [row["by"] for row in shape["faults"]] == ["sum-dv", "repeat-whole"]
    assert not any(shape["faults"][1]["public_rules"].values())
    assert shape["false_positives"]["alarms"] == 0
    assert shape["false_positives"]["checks"] == 2 * (len(CHECKS) - 1)


def test_wrong_usage():
    assert call("row-sum-order", "--kernel", "simulation").exit_code == 2
    assert call("no-such-fault").exit_code == 2
    assert call("zeros", "--alarm-seeds", "0").exit_code == 2
