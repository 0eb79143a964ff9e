"""What the theorems state, as data, and as formulas that can be evaluated.

``statements()`` reads every theorem of ``rocq/`` into its variables, its premises and its claims; a
bound's right side is split into its summands. ``statements.json`` holds the same, and a test reads
the sources again and compares, so that a statement cannot change unseen. ``Claim.terms`` evaluates
a claim's summands on numbers: the definitions that it uses are run from the sources too, so no
formula is written down a second time on the way from a proof to a comparison with the code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from dmverify.errors import unknown_name
from dmverify.proofs.evaluate import FILE, SECTION, Late, Scope, Value, run, source
from dmverify.proofs.gallina import Term, parse, show
from dmverify.proofs.theorems import Theorem, list_theorems

STATEMENTS = Path(__file__).parent / "statements.json"
_HYPOTHESIS = re.compile(r"^ *Hypothesis \w+ : (.*?)\.[ ]*$", re.MULTILINE | re.DOTALL)
_INEQUALITY = ("<=", "<", "=")


@dataclass(frozen=True)
class Claim:
    """One conclusion of a theorem: left relation sum of terms.

    Attributes:
        left: What is bounded.
        relation: ``<=``, ``<`` or ``=``.
        right: The summands of the right side, as terms of the language.
        lets: Names that the statement introduces before it, with their values.
        file: Where it stands: the names of its definitions are that file's.
    """

    left: Term
    relation: str
    right: tuple[Term, ...]
    lets: tuple[tuple[Term, Term], ...]
    file: str

    def terms(self, **values: Value) -> tuple[Fraction, ...]:
        """The summands for values of the theorem's variables (those that they mention)."""
        scope: Scope = {**values, FILE: self.file}
        for pattern, value in self.lets:
            if pattern[1] not in values:
                scope[pattern[1]] = Late(value, scope)
        return tuple(Fraction(run(term, scope)) for term in self.right)


@dataclass(frozen=True)
class Statement:
    """A theorem's statement.

    Attributes:
        name: The theorem.
        file: Where it is.
        variables: What it holds for all of.
        premises: What it needs, in its own words.
        claims: What it says.
    """

    name: str
    file: str
    variables: tuple[str, ...]
    premises: tuple[str, ...]
    claims: tuple[Claim, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data: formulas as text."""
        claims = [
            {"left": show(c.left), "relation": c.relation, "terms": [show(t) for t in c.right]}
            for c in self.claims
        ]
        return {
            "name": self.name, "file": self.file, "variables": list(self.variables),
            "premises": list(self.premises), "claims": claims,
        }  # fmt: skip


@cache
def statements() -> Mapping[str, Statement]:
    """Every theorem's statement by name."""
    return {one.name: _stated(one, _hypotheses(one)) for one in list_theorems()}


def _hypotheses(one: Theorem) -> list[str]:
    """What the section that a theorem stands in supposes before it."""
    for _, body in SECTION.findall(source(one.file)):
        before, found, _ = body.partition(f" {one.name} :")
        if found:
            return [show(parse(text)) for text in _HYPOTHESIS.findall(before)]
    return []


def get_statement(name: str) -> Statement:
    """Look a theorem up.

    Raises:
        UnknownNameError: There is none of that name.
    """
    if name not in statements():
        raise unknown_name("theorem", name, statements(), shown_by="dmverify prove --theorems")
    return statements()[name]


def exported() -> str:
    """The text of ``statements.json``."""
    return json.dumps([s.to_json() for s in statements().values()], indent=1) + "\n"


def _stated(one: Theorem, premises: list[str]) -> Statement:
    term = parse(one.statement)
    variables: list[str] = []
    lets: list[tuple[Term, Term]] = []
    while term[0] in ("forall", "let") or term[:2] == ("op", "->"):
        if term[0] == "forall":
            variables += [show(pattern) for pattern in term[1]]
            term = term[2]
        elif term[0] == "let":
            lets.append((term[1], term[2]))
            term = term[3]
        else:
            premises.append(show(term[2]))
            term = term[3]
    claims = tuple(_claim(part, tuple(lets), one.file) for part in _spread(term, "/\\"))
    return Statement(one.name, one.file, tuple(variables), tuple(premises), claims)


def _claim(term: Term, lets: tuple[tuple[Term, Term], ...], file: str) -> Claim:
    if term[0] == "op" and term[1] in _INEQUALITY:
        return Claim(term[2], term[1], tuple(_spread(term[3], "+")), lets, file)
    return Claim(term, "", (), lets, file)


def _spread(term: Term, sign: str) -> Iterator[Term]:
    """The operands of a sum, or of a conjunction."""
    if term[:2] == ("op", sign):
        yield from _spread(term[2], sign)
        yield from _spread(term[3], sign)
    else:
        yield term
