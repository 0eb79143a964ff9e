"""Lemmas whose second means is another one than a solver that reads the same formula."""

import re

from dmverify.proofs import all_lemmas
from dmverify.proofs.second_means import ALONE, THEOREM, second_means
from dmverify.proofs.theorems import FILES, SOURCES

TEXT = "\n".join((SOURCES / f"{file}.v").read_text() for file in FILES)
PROVED = set(re.findall(r"^ *(?:Theorem|Lemma|Corollary) (\w+) :", TEXT, re.MULTILINE))


def test_every_theorem_named_is_one_and_every_lemma_too():
    assert set(THEOREM) <= {entry.id for entry in all_lemmas()}
    assert set(THEOREM.values()) <= PROVED
    assert "no_such_theorem" not in PROVED


def test_how_many_have_another_means():
    means = {entry.id: second_means(entry) for entry in all_lemmas()}
    alone = sorted(name for name, found in means.items() if found == (ALONE,))
    assert len(means) - len(alone) == 57
    assert len(alone) == 35
