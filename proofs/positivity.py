"""A second checker: proof objects of goals over the reals, read and checked without any solver.

A goal is the text that the solvers read (SMT-LIB): assertions that no numbers satisfy. The checker
divides them into cases, in a fixed order: a disjunction or a condition by its parts, x /= y by
the two orders. In a case every fact is a polynomial that is >= 0, > 0 or = 0. The object gives for
each case coefficients and products of facts with

    sum of c_k (product of facts k) = 0 as polynomials      c_k >= 0 unless a fact is = 0

of which some c_k > 0 belongs to a product of facts > 0 alone (1 > 0 is one): a contradiction
(Farkas for facts that are linear, Positivstellensatz with products). Finding coefficients is hard
and left to ``positivity_search``; checking them is a page, and needs nothing but fractions.

Not covered: integers, bit-vectors, floating point, quantifiers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from dmverify.errors import DmverifyError

Monomial: TypeAlias = tuple[str, ...]
Poly: TypeAlias = Mapping[Monomial, Fraction]
Word: TypeAlias = Any  # a string, or a list of words
Product: TypeAlias = tuple[Fraction, tuple[int, ...]]

EQUAL, AT_LEAST, ABOVE = "= 0", ">= 0", "> 0"


class ProofObjectError(DmverifyError):
    """An object that is no proof of its goal."""

    code = "DMV-OBJECT"
    exit_code = 1


@dataclass(frozen=True)
class Fact:
    """A polynomial and its sign in a case."""

    poly: Poly
    sign: str


ONE = Fact({(): Fraction(1)}, ABOVE)


def check(goal: str, proof: Sequence[Sequence[Product]]) -> int:
    """Check a proof; returns the number of cases.

    Args:
        goal: SMT-LIB text whose assertions are to be contradictory.
        proof: Of each case, coefficients and the facts that they multiply, by number; 0 is 1 > 0.

    Raises:
        ProofObjectError: If a case has no contradiction, or cases and proof do not match.
    """
    together = list(_together(cases(goal), proof))
    for facts, products in together:
        _contradiction(facts, products)
    return len(together)


def _together(
    found: Iterator[tuple[Fact, ...]], proof: Sequence[Sequence[Product]]
) -> Iterator[tuple[tuple[Fact, ...], Sequence[Product]]]:
    rest = iter(proof)
    for facts in found:
        products = next(rest, None)
        if products is None:
            raise _wrong("a case without a proof")
        yield facts, products
    if next(rest, None) is not None:
        raise _wrong("a proof without a case")


def _contradiction(facts: Sequence[Fact], products: Sequence[Product]) -> None:
    whole: dict[Monomial, Fraction] = {}
    strict = False
    for coefficient, numbers in products:
        if any(not 0 <= k < len(facts) for k in numbers):
            raise _wrong("a fact that is none")
        factors = [facts[k] for k in numbers]
        if coefficient < 0 and all(fact.sign != EQUAL for fact in factors):
            raise _wrong("a negative coefficient")
        strict |= coefficient > 0 and all(fact.sign == ABOVE for fact in factors)
        term: Poly = {(): coefficient}
        for fact in factors:
            term = times(term, fact.poly)
        whole = dict(plus(whole, term))
    if whole or not strict:
        raise _wrong("a sum that is no contradiction")


def _wrong(what: str) -> ProofObjectError:
    return ProofObjectError(
        what, rule="an object proves its goal", fix="search for the object anew"
    )


# Cases


def cases(goal: str) -> Iterator[tuple[Fact, ...]]:
    """The facts of every case, 1 > 0 first."""
    asserted = [word[1] for word in _words(goal) if word[0] == "assert"]
    yield from _cases([(word, True, {}) for word in asserted], (ONE,))


Pending: TypeAlias = tuple[Word, bool, Mapping[str, Word]]


def _cases(pending: Sequence[Pending], facts: tuple[Fact, ...]) -> Iterator[tuple[Fact, ...]]:
    """Takes the first formula apart; ``True`` beside it says that it holds."""
    if not pending:
        yield facts
        return
    (word, holds, names), rest = pending[0], pending[1:]
    if isinstance(word, str) and word in names:
        yield from _cases([(names[word], holds, names), *rest], facts)
    elif word == "true" or word == "false":
        if (word == "true") == holds:
            yield from _cases(rest, facts)
    elif word[0] == "let":
        inner = dict(names) | {name: _Closed(value, names) for name, value in word[1]}
        yield from _cases([(word[2], holds, inner), *rest], facts)
    else:
        yield from _parts(word, holds, names, rest, facts)


def _parts(
    word: Word,
    holds: bool,
    names: Mapping[str, Word],
    rest: Sequence[Pending],
    facts: tuple[Fact, ...],
) -> Iterator[tuple[Fact, ...]]:
    head, parts = word[0], word[1:]
    if isinstance(word, _Closed):
        yield from _cases([(word.word, holds, word.names), *rest], facts)
    elif head == "not":
        yield from _cases([(parts[0], not holds, names), *rest], facts)
    elif head == "=>":
        either = [["not", part] for part in parts[:-1]] + [parts[-1]]
        yield from _cases([(["or", *either], holds, names), *rest], facts)
    elif head in ("and", "or") and (head == "and") == holds:
        yield from _cases([*((part, holds, names) for part in parts), *rest], facts)
    elif head in ("and", "or"):
        for part in parts:
            yield from _cases([(part, holds, names), *rest], facts)
    else:
        yield from _compared(word, holds, names, rest, facts)


def _compared(
    word: Word,
    holds: bool,
    names: Mapping[str, Word],
    rest: Sequence[Pending],
    facts: tuple[Fact, ...],
) -> Iterator[tuple[Fact, ...]]:
    """A comparison; a condition in it divides all that is left, once for each way."""
    head, (a, b) = word[0], word[1:]
    condition = next((c for side in (a, b) for c in _conditions(side, names)), None)
    if condition is not None:
        for way in (True, False):
            decided: list[Pending] = [
                (_choose(part, own, condition, way), wanted, {})
                for part, wanted, own in ((word, holds, names), *rest)
            ]
            yield from _cases([(condition, way, {}), *decided], facts)
        return
    left, right = poly(a, names), poly(b, names)
    for small, large, sign in _ORDERS[head, holds]:
        pair = {"a": left, "b": right}
        fact = Fact(plus(pair[large], times({(): Fraction(-1)}, pair[small])), sign)
        yield from _cases(rest, (*facts, fact))


_ORDERS: Mapping[tuple[str, bool], tuple[tuple[str, str, str], ...]] = {
    ("<=", True): (("a", "b", AT_LEAST),),
    (">=", True): (("b", "a", AT_LEAST),),
    ("<", True): (("a", "b", ABOVE),),
    (">", True): (("b", "a", ABOVE),),
    ("=", True): (("a", "b", EQUAL),),
    ("<=", False): (("b", "a", ABOVE),),
    (">=", False): (("a", "b", ABOVE),),
    ("<", False): (("b", "a", AT_LEAST),),
    (">", False): (("a", "b", AT_LEAST),),
    ("=", False): (("a", "b", ABOVE), ("b", "a", ABOVE)),
}


class _Closed(list[Word]):
    """A word with the names that it was written under."""

    def __init__(self, word: Word, names: Mapping[str, Word]) -> None:
        super().__init__(["closed"])
        self.word, self.names = word, names


def _open(word: Word, names: Mapping[str, Word]) -> tuple[Word, Mapping[str, Word]]:
    while isinstance(word, _Closed) or (isinstance(word, str) and word in names):
        word, names = (word.word, word.names) if isinstance(word, _Closed) else (names[word], names)
    return word, names


def _written(word: Word, names: Mapping[str, Word]) -> Word:
    """The word with all names written out."""
    word, names = _open(word, names)
    if isinstance(word, str):
        return word
    if word[0] == "let":
        inner = dict(names) | {name: _Closed(value, names) for name, value in word[1]}
        return _written(word[2], inner)
    return [word[0], *(_written(part, names) for part in word[1:])]


def _conditions(word: Word, names: Mapping[str, Word]) -> Iterator[Word]:
    """Conditions of ``ite`` in a term, innermost first."""
    word = _written(word, names)
    if not isinstance(word, str):
        for part in word[1:]:
            yield from _conditions(part, {})
        if word[0] == "ite":
            yield word[1]


def _choose(word: Word, names: Mapping[str, Word], condition: Word, way: bool) -> Word:
    """The term where a condition holds, or does not."""
    word = _written(word, names)
    if isinstance(word, str):
        return word
    if word[0] == "ite" and word[1] == condition:
        return _choose(word[2] if way else word[3], {}, condition, way)
    return [word[0], *(_choose(part, {}, condition, way) for part in word[1:])]


# Polynomials


def plus(a: Poly, b: Poly) -> Poly:
    """The sum; zero coefficients are left out."""
    keys = dict.fromkeys((*a, *b))
    total = {key: a.get(key, Fraction(0)) + b.get(key, Fraction(0)) for key in keys}
    return {key: value for key, value in total.items() if value}


def times(a: Poly, b: Poly) -> Poly:
    """The product."""
    total: Poly = {}
    for (x, c), (y, d) in ((p, q) for p in a.items() for q in b.items()):
        total = plus(total, {tuple(sorted((*x, *y))): c * d})
    return total


def poly(word: Word, names: Mapping[str, Word]) -> Poly:
    """A term as a polynomial.

    Raises:
        ProofObjectError: If it is none.
    """
    word, names = _open(word, names)
    if isinstance(word, str):
        number = re.fullmatch(r"\d+(\.\d+)?", word)
        return {(): Fraction(word)} if number and Fraction(word) else {} if number else _name(word)
    head, parts = word[0], [poly(part, names) for part in word[1:]]
    if head == "+":
        return _folded(plus, parts)
    if head == "*":
        return _folded(times, parts)
    if head == "-":
        minus = [times({(): Fraction(-1)}, part) for part in parts]
        return minus[0] if len(parts) == 1 else _folded(plus, [parts[0], *minus[1:]])
    if head == "/" and set(parts[1]) == {()}:
        return times(parts[0], {(): 1 / parts[1][()]})
    raise _wrong(f"a term of the kind {head}")


def _name(word: str) -> Poly:
    return {(word,): Fraction(1)}


def _folded(join: Any, parts: Sequence[Poly]) -> Poly:
    whole = parts[0]
    for part in parts[1:]:
        whole = join(whole, part)
    return whole


def _words(text: str) -> list[Word]:
    """The text as nested lists; comments left out."""
    tokens = re.findall(r"[()]|\|[^|]*\||[^\s()|]+", re.sub(r";[^\n]*", "", text))
    stack: list[list[Word]] = [[]]
    for token in tokens:
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    return stack[0]
