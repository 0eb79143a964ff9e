"""Statements as data: read from the proofs' sources, evaluated in exact numbers."""

import json
from fractions import Fraction

import pytest

from dmverify.errors import DmverifyError
from dmverify.proofs.evaluate import definition
from dmverify.proofs.gallina import parse, show, without_comments
from dmverify.proofs.statements import (
    STATEMENTS,
    exported,
    get_statement,
    statements,
)
from dmverify.proofs.theorems import list_theorems

F = Fraction
U = F(1, 2**24)
ROW = ("Fused", ("Product", F(1, 2), F(3)), F(1, 4), F(-2))


def test_the_exported_statements_are_those_of_the_sources():
    """A coefficient, a term or a premise that changes in a theorem changes this file."""
    assert STATEMENTS.read_text() == exported()
    assert [one["name"] for one in json.loads(exported())] == [t.name for t in list_theorems()]


def test_every_theorem_claims_something():
    assert all(one.claims for one in statements().values())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a - b - c", "((a - b) - c)"),
        ("a <= b < c", "((a <= b) /\\ (b < c))"),
        ("/ 2 * - x ^ 2", "((/ 2) * (- (x ^ 2)))"),
        ("f x (g y) + 1", "((f x (g y)) + 1)"),
        ("fun j => p j * 2", "(fun j, ((p j) * 2))"),
        ("forall (a b : R), a < b -> a < c", "(forall a b, ((a < b) -> (a < c)))"),
        ("let '(x, y) := k in x", "(let (x, y) := k in x)"),
        ("match l with [] => 0 | x :: l => x end", "(match l | [] => 0 | (x :: l) => x)"),
    ],
)  # fmt: skip
def test_terms_are_read_as_rocq_reads_them(text, shown):
    assert show(parse(text)) == shown


@pytest.mark.parametrize("text", ["a +", "(a", "f x)", "let x := 1", "a b :="])
def test_what_is_no_term_is_refused(text):
    with pytest.raises((DmverifyError, IndexError)):
        parse(text)


def test_comments_are_left_out():
    assert without_comments("a (* b (* c *) d *) e").split() == ["a", "e"]


def test_a_claim_is_evaluated_by_the_definitions_of_the_sources():
    """Two keys: n u sum |P dP|, and eta for each; by hand."""
    first, second = get_statement("match_any_order").claims[0].terms(t=ROW, top=F(3))
    assert first == 2 * U * (F(3, 2) + F(1, 2))
    assert second == 2 * F(1, 2**150) * (1 + 2 * U + 3)


def test_definitions_run():
    assert definition("Inner", "computed")(ROW) == 1  # 3 / 2 - 1 / 2
    assert definition("Inner", "products")(ROW) == 2
    assert definition("Binary32", "u") == U
    assert definition("Casts", "cast_bound")(F(34)) == 2
    assert definition("Known", "half_unit")(F(448)) == 16
    assert definition("Casts", "codes")(F(0), (F(17), F(17))) == 16 + 18


def test_functions_of_the_reals_are_close():
    assert abs(definition("Softmax", "log2")(F(8)) - 3) < F(1, 2**150)


def test_a_variable_without_a_value_is_named():
    with pytest.raises(DmverifyError, match="top"):
        get_statement("match_any_order").claims[0].terms(t=ROW)


def test_an_unknown_theorem_is_refused():
    with pytest.raises(DmverifyError, match="no_such_theorem"):
        get_statement("no_such_theorem")
