"""1,000 rows a mode here, 10,000 a mode and captures on record: exact and inside the bounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dmverify.conformance.families import list_cases
from dmverify.spec.ledger import TERMS_OF_MODE
from tests.ledger.record_exactness import (
    COMMAND,
    FILE,
    contracts,
    drawn,
    summarise,
    take,
    trained,
)
from tests.ledger.toy import contract_of

RECORDED = json.loads(Path(FILE).read_text())
CAPTURES = list_cases("capture")


def flawless(summary):
    assert summary["exact"] == summary["rows"]
    assert {n: m for n, m in summary["margins"].items() if m > 1} == {}
    return True


@pytest.mark.parametrize("mode", TERMS_OF_MODE)
def test_a_thousand_rows_a_mode_are_exact(mode):
    summary = summarise(contract_of(mode), drawn(1))
    assert summary["rows"] >= 1000
    assert summary["rows_of_64_keys"] >= 1000
    assert flawless(summary)


@pytest.mark.parametrize("base", ["article", "bundled"])
@pytest.mark.parametrize("mode", ["stale", "matched", "shifted"])
def test_a_thousand_rows_of_trained_models_are_exact(base, mode):
    names = [n for n in CAPTURES if "chars" in n][-3:] + [n for n in CAPTURES if "short" in n][:2]
    summary = summarise(contract_of(mode, base), trained(names))
    assert summary["rows"] >= 1000
    assert flawless(summary)


def test_the_record_covers_every_contract_and_is_flawless():
    assert RECORDED["command"] == COMMAND
    recorded = [r["drawn"]["contract"] for r in RECORDED["runs"]]
    assert sorted(recorded) == sorted(c.name for c in contracts())
    for run in RECORDED["runs"]:
        assert run["drawn"]["rows"] >= 10_000
        assert run["drawn"]["rows_of_64_keys"] >= 5_000
        assert run["captures"]["rows"] >= 1000
        assert flawless(run["drawn"])
        assert flawless(run["captures"])


def test_the_record_agrees_with_a_row_taken_now():
    """The first call again: its margins are among those on record."""
    for run in RECORDED["runs"][:2]:
        contract = next(c for c in contracts() if c.name == run["drawn"]["contract"])
        now = take(contract, next(drawn(1)))
        margins = run["drawn"]["margins"]
        assert {n for n in now.names if now.margin(n).max() > margins[n] * 1.001} == set()


def test_a_flawed_summary_is_refused():
    good = RECORDED["runs"][0]["drawn"]
    with pytest.raises(AssertionError):
        flawless(good | {"exact": good["rows"] - 1})
    with pytest.raises(AssertionError):
        flawless(good | {"margins": good["margins"] | {"acc": 1.5}})
