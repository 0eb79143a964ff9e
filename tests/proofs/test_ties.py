"""Bounds against theorems: equal where they should be, and a planted error is seen."""

from dataclasses import replace
from fractions import Fraction
from importlib import import_module

import pytest

from dmverify.proofs.every_tie import all_ties
from dmverify.proofs.ties import compare
from dmverify.spec.ledger.bounds import BOUNDS

TIES = {tie.bound: tie for tie in all_ties()}
EXACT = 1e-9
LOOSER = {
    "cast, nearest": 4e-5,
    "cast, zero-sum": 4e-5,
    "sum with one large term": 1e-6,
    "row, after the nearest cast": 4e-5,
    "row, after the zero-sum cast": 4e-5,
}
# The composition of these is by hand: vmis is 0, and the cast's cap is the sizes' own sum.
TERMS_WITHOUT = {"vmis"}


@pytest.mark.parametrize("bound", TIES)
def test_the_code_has_the_theorems_right_side(bound):
    found = compare(TIES[bound])
    assert found.ok, (found.below, found.blind)
    if ":" not in bound:  # the ledger, which sees the numbers that the theorem is about
        assert found.ratios.max() - 1 < LOOSER.get(bound, EXACT)


def test_every_term_of_the_ledger_is_tied():
    terms = {tie.bound.partition(",")[0] for tie in TIES.values()}
    assert set(BOUNDS) - terms == TERMS_WITHOUT


@pytest.mark.parametrize("bound", TIES)
def test_a_tie_names_what_computes_it(bound):
    module, name = TIES[bound].code.split(":")
    thing = import_module(f"dmverify.{module}")
    for part in name.split("."):
        thing = getattr(thing, part)
    assert callable(thing) or bound.startswith("closed: cast of") or "Errors" in name


def halved(tie, summand):
    """The tie with a code that has half of one summand of the theorem."""
    found = compare(tie)

    def cases():
        for (coded, uses), share in zip(tie.cases(), found.shares, strict=True):
            yield coded * (1 - share[summand] / 2), uses

    return replace(tie, cases=cases)


@pytest.mark.parametrize("bound", TIES)
def test_half_a_summand_is_noticed(bound):
    tie = TIES[bound]
    for summand in range(compare(tie).shares.shape[1]):
        if summand not in tie.unseen:
            assert compare(halved(tie, summand)).below > EXACT


def test_a_code_far_above_its_theorem_is_blind():
    tie = TIES["elem"]
    loose = replace(tie, cases=lambda: ((3 * coded, uses) for coded, uses in tie.cases()))
    found = compare(loose)
    assert found.below < 0
    assert found.blind == (0, 1)
    assert not found.ok


def test_a_code_below_its_theorem_is_none():
    tie = TIES["closed: matched"]
    low = replace(tie, cases=lambda: ((float(Fraction(c) / 2), u) for c, u in tie.cases()))
    assert not compare(low).ok


def test_what_is_left_unseen_says_why():
    unseen = [words for tie in TIES.values() for words in tie.unseen.values()]
    assert len(unseen) == 29
    assert all(unseen)
