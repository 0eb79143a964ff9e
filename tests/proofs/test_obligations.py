"""Every premise of a tied theorem is met by something that exists."""

from importlib import import_module

import pytest

from dmverify.proofs.obligations import EVERYWHERE, OBLIGATIONS, premises
from dmverify.proofs.theorems import FILES, SOURCES
from dmverify.spec.bounds.premises import PREMISES as CLOSED
from dmverify.spec.ledger.bounds.premises import PREMISES as LEDGER

ROWS = {premise.lemma for premise in (*CLOSED, *LEDGER)}
PROVED = "\n".join((SOURCES / f"{file}.v").read_text() for file in FILES)
MET = (*EVERYWHERE, *OBLIGATIONS.values())


def missing(met, rows=ROWS):
    """What an entry refers to in vain; empty if it refers to something."""
    if met.how == "row":
        return "" if met.where in rows else met.where
    if met.how == "theorem":
        found = any(f"{kind} {met.where} :" in PROVED for kind in ("Theorem", "Lemma"))
        return "" if found else met.where
    if met.how == "code":
        module, name = met.where.split(":")
        return "" if hasattr(import_module(f"dmverify.{module}"), name) else met.where
    return "" if (met.how, met.where) == ("meaning", "") else met.how


def test_every_premise_has_an_entry_and_every_entry_a_premise():
    assert {premise for _, premise in premises()} == set(OBLIGATIONS)


@pytest.mark.parametrize("met", dict.fromkeys(MET), ids=lambda met: f"{met.how} {met.where}")
def test_an_entry_refers_to_something(met):
    assert missing(met) == ""
    assert met.words


def test_a_removed_row_is_missed():
    """Both tables of premises: the ledger's, and the closed forms' for what overflows."""
    needed = {met.where for met in MET if met.how == "row"}
    assert needed == {"rn-error", "sum-fma-chain", "relative-inverse"}
    for name in needed:
        met = next(met for met in MET if met.where == name)
        assert missing(met, ROWS - {name}) == name


@pytest.mark.parametrize("table", [CLOSED, LEDGER], ids=["closed", "ledger"])
@pytest.mark.parametrize("lemma", ["sum-fma-chain", "relative-inverse"])
def test_both_tables_have_the_rows_of_sums(table, lemma):
    assert any(premise.lemma == lemma for premise in table)
