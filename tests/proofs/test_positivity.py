"""Proof objects: kept for ten lemmas, checked without a solver, and a false proof is none."""

from fractions import Fraction

import pytest

from dmverify.proofs import get_lemma
from dmverify.proofs.positivity import ProofObjectError, cases, check, poly
from dmverify.proofs.positivity_search import KEPT, OBJECTS, goals, read, search, written
from dmverify.proofs.solve import refutation, smtlib, z3_check

F = Fraction
PATIENT = 86400.0  # seconds: what a solver can answer it answers, however slow the machine is
ALL = [(name, goal) for lemma in KEPT for name, goal in goals(lemma)]
TRIANGLE = """
(declare-fun x () Real)
(declare-fun y () Real)
(assert (>= x 0))
(assert (>= y 1.0))
(assert (not (>= (+ x (* 2.0 y)) (/ 1.0 2.0))))
"""
# 1/2 - x - 2y > 0, x >= 0, y >= 1: the first, plus x, plus 2 (y - 1), plus 3/2 of 1 > 0, is 0.
PROOF = [[(F(1), (3,)), (F(1), (1,)), (F(2), (2,)), (F(3, 2), (0,))]]


def stored(name):
    return read((OBJECTS / name).read_text())


def test_ten_lemmas_have_an_object_for_every_goal():
    assert len(KEPT) == 10
    assert {path.name for path in OBJECTS.iterdir()} == {name for name, _ in ALL}


@pytest.mark.parametrize(("name", "goal"), ALL, ids=[name for name, _ in ALL])
def test_an_object_proves_its_goal(name, goal):
    assert check(goal, stored(name)) >= 1


def test_a_proof_by_hand_is_one():
    assert check(TRIANGLE, PROOF) == 1


@pytest.mark.parametrize(
    ("false", "why"),
    [
        ([], "a case without a proof"),
        ([PROOF[0], PROOF[0]], "a proof without a case"),
        ([[]], "no contradiction"),
        ([[(F(2), (3,)), *PROOF[0][1:]]], "no contradiction"),
        ([[(F(-1), (3,)), *PROOF[0][1:]]], "a negative coefficient"),
        ([[(F(1), (4,))]], "a fact that is none"),
        ([[(F(1), (1,)), (F(-1), (1,))]], "a negative coefficient"),
        ([[(F(1), (3, 3)), *PROOF[0][1:]]], "no contradiction"),
    ],
)
def test_a_false_proof_is_none(false, why):
    with pytest.raises(ProofObjectError, match=why):
        check(TRIANGLE, false)


def test_nothing_follows_from_facts_that_some_numbers_meet():
    """x >= 0 and x <= 0 is met by 0: the sum of both is 0, and neither is strict."""
    goal = "(declare-fun x () Real)(assert (>= x 0))(assert (<= x 0))"
    with pytest.raises(ProofObjectError, match="no contradiction"):
        check(goal, [[(F(1), (1,)), (F(1), (2,))]])


@pytest.mark.parametrize("lemma", KEPT)
def test_an_object_proves_no_control(lemma):
    """The same object against the goal that a model refutes, the constant tightened."""
    entry = get_lemma(lemma)
    refuted = [k for k, goal in enumerate(entry.build(entry.control)) if is_refuted(goal)]
    assert refuted
    for k in refuted:
        goal = smtlib(refutation(entry.build(entry.control)[k]))
        assert goal != smtlib(refutation(entry.build(entry.constant)[k]))
        with pytest.raises(ProofObjectError):
            check(goal, stored(f"{lemma}.{k}.json"))


def is_refuted(goal):
    """Whether a solver finds a model against it, as the lemma's control must have."""
    status, _ = z3_check((*refutation(goal), *goal.guide), timeout=PATIENT)
    return status == "sat"


def test_cases_are_those_of_the_formula():
    """|x| <= 1 and not (x <= 1): x >= 0 or not, and 1 > 0 in each."""
    goal = "(assert (<= (ite (>= x 0) x (- x)) 1))(assert (not (<= x 1)))"
    found = list(cases(goal))
    assert [len(facts) for facts in found] == [4, 4]
    assert check(goal, search(goal)) == 2
    assert len(list(cases("(assert (or (= x 0) (not (= x 1))))"))) == 3
    assert len(list(cases("(assert (=> (> x 0) (> x 1)))"))) == 2
    assert list(cases("(assert false)")) == []
    nested = "(assert (let ((a (+ x 1))) (let ((b (* a a))) (< b 0))))"
    (((_, fact),),) = [[facts] for facts in cases(nested)]
    assert fact.poly == {("x", "x"): -1, ("x",): -2, (): -1}


def test_terms_are_polynomials_or_refused():
    assert poly(["*", "x", ["-", "y", ["/", "1.0", "4.0"]]], {}) == {
        ("x", "y"): 1, ("x",): F(-1, 4),
    }  # fmt: skip
    for word in (["mod", "x", "2"], ["/", "x", "y"]):
        with pytest.raises(ProofObjectError, match="a term of the kind"):
            poly(word, {})


def test_what_is_written_is_read():
    assert read(written(PROOF)) == PROOF
