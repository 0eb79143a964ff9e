"""Lemmas whose second means is another one than a solver that reads the same formula."""

from dmverify.proofs import CERTIFICATES, all_lemmas
from dmverify.proofs.second_means import ALONE, THEOREM, second_means
from dmverify.proofs.theorems import list_theorems


def test_every_theorem_named_is_one_whose_axioms_are_read_and_every_lemma_too():
    lemmas = {entry.id for entry in all_lemmas()} | {entry.id for entry in CERTIFICATES}
    assert set(THEOREM) <= lemmas
    assert set(THEOREM.values()) <= {one.name for one in list_theorems()}


def test_every_lemma_has_an_exhaustive_run_or_a_theorem():
    weak = [entry.id for entry in all_lemmas() if entry.sweep is None and entry.id not in THEOREM]
    assert weak == []


def test_a_lemma_of_two_solvers_alone_would_be_seen():
    import dataclasses

    (entry,) = (entry for entry in all_lemmas() if entry.id == "e4m3-grid")
    assert second_means(dataclasses.replace(entry, id="new", sweep=None)) == (ALONE,)
