"""Finds proof objects for ``positivity``: coefficients of products of facts, by z3.

    dmverify lab proof-objects

writes ``objects/`` for the lemmas of ``KEPT``: the ten on which the row sums' bounds rest. What is
found here is not trusted; it is checked without a solver wherever it is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from pathlib import Path

import z3

from dmverify.errors import DmverifyError
from dmverify.proofs.positivity import ABOVE, EQUAL, Fact, Monomial, Poly, Product, cases, times
from dmverify.proofs.registry import get_lemma
from dmverify.proofs.solve import refutation, smtlib

OBJECTS = Path(__file__).parent / "objects"
KEPT = (
    "elem-error", "matched-bound", "renormalized-delta", "shifted-delta", "shifted-dominance",
    "norm-perturbation", "relative-inverse", "relative-composition",
    "ex2-argument-fused", "wgmma-partials",
)  # fmt: skip
DEGREES = (1, 2, 3)


class NotFoundError(DmverifyError):
    """No coefficients of these degrees contradict a case."""

    code = "DMV-NO-OBJECT"
    exit_code = 1


def goals(lemma: str) -> Iterator[tuple[str, str]]:
    """File name and text of each goal of a lemma with its true constant."""
    entry = get_lemma(lemma)
    for number, goal in enumerate(entry.build(entry.constant)):
        yield f"{lemma}.{number}.json", smtlib(refutation(goal))


def read(text: str) -> list[list[Product]]:
    """A stored object."""
    return [
        [(Fraction(c), tuple(numbers)) for c, numbers in products] for products in json.loads(text)
    ]


def written(proof: Sequence[Sequence[Product]]) -> str:
    """An object as it is stored, a case a line."""
    lines = [json.dumps([[str(c), list(k)] for c, k in products]) for products in proof]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def search(goal: str) -> list[list[Product]]:
    """An object for a goal.

    Raises:
        NotFoundError: If there is none of the degrees.
    """
    return [_case(facts) for facts in cases(goal)]


def _case(facts: Sequence[Fact]) -> list[Product]:
    for degree in DEGREES:
        found = _of_degree(facts, degree)
        if found is not None:
            return found
    raise NotFoundError(
        f"{len(facts)} facts", rule="a contradiction of low degree", fix="state the goal in steps"
    )


def _of_degree(facts: Sequence[Fact], degree: int) -> list[Product] | None:
    """Coefficients of all products of at most so many facts, as a linear problem."""
    numbers = range(1, len(facts))
    chosen: list[tuple[int, ...]] = [(0,)]
    for size in range(1, degree + 1):
        chosen += combinations_with_replacement(numbers, size)
    solver, columns = (
        z3.SolverFor("QF_LRA"),
        z3.Reals(" ".join(f"c{k}" for k in range(len(chosen)))),
    )
    sums: dict[Monomial, list[z3.ArithRef]] = {}
    strict = []
    for column, product in zip(columns, chosen, strict=True):
        factors = [facts[k] for k in product]
        if all(fact.sign != EQUAL for fact in factors):
            solver.add(column >= 0)
        if all(fact.sign == ABOVE for fact in factors):
            strict.append(column)
        term: Poly = {(): Fraction(1)}
        for fact in factors:
            term = times(term, fact.poly)
        for monomial, value in term.items():
            sums.setdefault(monomial, []).append(z3.Q(value.numerator, value.denominator) * column)
    solver.add(z3.Sum(strict) == 1, *(z3.Sum(parts) == 0 for parts in sums.values()))
    solver.set("timeout", 20_000)
    if solver.check() != z3.sat:
        return None
    model = solver.model()
    values = [model.eval(column, model_completion=True).as_fraction() for column in columns]
    return [(Fraction(v), product) for v, product in zip(values, chosen, strict=True) if v]


def write() -> tuple[Path, ...]:
    """Finds every object and writes it; returns the files."""
    OBJECTS.mkdir(exist_ok=True)
    found = []
    for lemma in KEPT:
        for name, goal in goals(lemma):
            (OBJECTS / name).write_text(written(search(goal)), encoding="utf-8")
            found.append(OBJECTS / name)
    return tuple(found)
