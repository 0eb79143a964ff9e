"""A run that is killed anywhere leaves what the same command completes, byte for byte."""

import json
import subprocess
import sys

import pytest

from tests.conformance.killed import KILLED


def found(folder, *words):
    command = [sys.executable, "-m", "tests.conformance.killed", str(folder), *words]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


@pytest.fixture(scope="module")
def kills(tmp_path_factory):
    """Every step of a run of two cases, each the last one of a run of its own."""
    return found(tmp_path_factory.mktemp("kills"))


def test_every_step_was_the_last_one_of_a_run(kills):
    assert kills["code"] == 0
    assert len(kills["rows"]) == kills["steps"] > 50
    assert {row["killed"] for row in kills["rows"]} == {KILLED}


def test_many_kills_are_inside_a_write(kills):
    assert sum(row["half"] for row in kills["rows"]) >= 30


def test_the_same_run_completes_what_is_left(kills):
    assert [row for row in kills["rows"] if not row["same"]] == []
    assert {row["again"] for row in kills["rows"][:-10]} == {0}


def test_a_run_that_leaves_more_is_seen(tmp_path):
    rows = found(tmp_path, "wrong")["rows"]
    assert {(row["again"], row["same"]) for row in rows} == {(0, False)}
