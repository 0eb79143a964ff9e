"""The derivation's pages say what theorems, lemmas and code say, and leave no theorem out."""

import ast

import pytest

from dmverify.proofs import CERTIFICATES, all_lemmas, theory
from dmverify.proofs.assumed import ASSUMED, NOT_PROVED
from dmverify.proofs.derivation import PARTS
from dmverify.proofs.gallina import parse, pretty, show
from dmverify.proofs.statements import statements
from dmverify.proofs.theorems import list_theorems
from dmverify.proofs.trusted import shown, trusted_base
from dmverify.studies.bounds.attained import attained

STEPS = [step for part in PARTS for step in part.steps]


def test_the_pages_are_what_the_proofs_and_the_code_say():
    shares = [(one.contract, one.share, one.share_of_terms) for one in attained()]
    for name, text in theory.pages(shares).items():
        assert (theory.PAGES / name).read_text() == text, "run dmverify lab theory"


def test_every_theorem_has_a_step():
    told = {name for step in STEPS for name in step.theorems}
    assert told == {one.name for one in list_theorems()}


def test_every_lemma_of_a_step_is_one():
    known = {entry.id for entry in (*all_lemmas(), *CERTIFICATES)}
    assert {name for step in STEPS for name in step.lemmas} <= known


def test_every_step_says_something():
    assert all(step.title and step.words and step.code for step in STEPS)
    assert len({step.title for step in STEPS}) == len(STEPS)
    assert all(what and why for what, why in (*ASSUMED, *NOT_PROVED))


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.title)
def test_a_line_of_code_is_shown_as_it_stands(step):
    for place in step.code:
        file, line = theory.line_of(place)
        assert (theory.PACKAGE.parent / file).exists()
        ast.parse(line if not line.startswith("return") else f"def f():\n    {line}")


def test_a_place_that_is_none_is_noticed():
    with pytest.raises(LookupError, match="no_such_bound"):
        theory.line_of("spec.ledger.bounds.correction:no_such_bound")


def test_fewer_brackets_mean_the_same():
    for one in statements().values():
        for claim in one.claims:
            for term in claim.right:
                assert show(parse(pretty(term))) == show(term)


def test_the_trusted_base_counts_what_the_ties_run():
    parts = {part.name: part.lines for part in trusted_base()}
    assert parts["bounds that a theorem stands against"] > parts["bounds that compose these"] / 2
    assert all(parts.values())
    assert str(parts["enclosures"]) in shown(trusted_base())


def test_what_no_tie_runs_is_trusted(monkeypatch):
    """Without ties all of the bounds are read by hand."""
    from dmverify.proofs import trusted

    whole = trusted_base()
    monkeypatch.setattr(trusted, "all_ties", lambda: ())
    none = trusted_base()
    assert none[0].lines == 0
    assert none[1].lines == whole[0].lines + whole[1].lines
