"""Pairs and triples of levels: which there are, and which a list of cases covers.

Everything is computed from case ids and contract names; the frozen rows take no part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

from dmverify.conformance.coverage.factors import (
    FACTORS,
    LENGTHS,
    MANY,
    TILE,
    Question,
    ask,
    levels_of,
    must_name,
)
from dmverify.spec.contracts import BUNDLED
from dmverify.spec.problem import Problem

Levels = tuple[int, ...]
LONGEST = (MANY + 2) * TILE  # lengths up to here have every combination of levels that there is


@dataclass(frozen=True)
class Coverage:
    """What a list covers of the combinations of some factors.

    Attributes:
        wanted: Per choice of factors (their indices), the combinations of levels that exist.
        met: The same, those that a case has.
    """

    wanted: Mapping[Levels, frozenset[Levels]]
    met: Mapping[Levels, frozenset[Levels]]

    @property
    def total(self) -> int:
        """How many combinations there are."""
        return self.of()[1]

    @property
    def count(self) -> int:
        """How many of them are met."""
        return self.of()[0]

    def of(self, *factors: int) -> tuple[int, int]:
        """How many combinations that contain some factors are met, and how many there are."""
        chosen = [which for which in self.wanted if set(factors) <= set(which)]
        met = sum(len(self.met[which]) for which in chosen)
        return met, sum(len(self.wanted[which]) for which in chosen)

    def missing(self) -> Iterable[tuple[Levels, Levels]]:
        """Factors and levels of every combination that no case has."""
        for which, wanted in self.wanted.items():
            yield from ((which, levels) for levels in sorted(wanted - self.met[which]))


def in_words(which: Levels, levels: Levels) -> str:
    """A combination for people, such as ``group 5, head dim 96``."""
    return ", ".join(
        f"{FACTORS[f].name} {FACTORS[f].levels[level]}"
        for f, level in zip(which, levels, strict=True)
    )


@dataclass(frozen=True)
class Row:
    """A case as it is counted.

    Attributes:
        levels: The level of every factor.
        must: Factors that a combination has to contain for this case to count (``must_name``).
    """

    levels: Levels
    must: frozenset[int]


def rows_of(asked: Iterable[tuple[str, str]]) -> tuple[Row, ...]:
    """The row of every (case id, contract) that counts for anything."""
    questions = (ask(case_id, contract) for case_id, contract in asked)
    found = ((levels_of(question), must_name(question)) for question in questions)
    return tuple(Row(levels, must) for levels, must in found if must is not None)


def cover(rows: Sequence[Row], strength: int, *, contract: bool = True) -> Coverage:
    """Counts the pairs (strength 2) or triples (3) that rows of levels cover.

    Args:
        rows: From ``rows_of``.
        strength: How many factors are combined.
        contract: Whether the contract's factors take part.
    """
    wanted = combinations_that_exist(strength, contract=contract)
    met = {
        which: frozenset(
            tuple(row.levels[f] for f in which) for row in rows if row.must <= frozenset(which)
        )
        & every
        for which, every in wanted.items()
    }
    return Coverage(wanted, met)


@cache
def combinations_that_exist(
    strength: int, *, contract: bool = True
) -> Mapping[Levels, frozenset[Levels]]:
    """Every combination of levels that some question has, by the factors' indices."""
    chosen = [i for i, factor in enumerate(FACTORS) if contract or not factor.contract]
    return {which: _existing(which) for which in combinations(chosen, strength)}


def _existing(which: Levels) -> frozenset[Levels]:
    """All combinations, less those that no two lengths have.

    Lengths with one key count only where both factors of the number of keys are named.
    """
    places = [place for place, f in enumerate(which) if FACTORS[f].name in LENGTHS]
    one_key = {"key tiles", "keys mod 64"} <= {FACTORS[f].name for f in which}
    rows = length_levels(1 if one_key else 2)
    possible = {tuple(row[which[place]] for place in places) for row in rows}
    every = product(*(range(len(FACTORS[f].levels)) for f in which))
    return frozenset(x for x in every if tuple(x[place] for place in places) in possible)


@cache
def length_levels(fewest: int = 1) -> frozenset[Levels]:
    """The levels of all factors for every two lengths up to ``LONGEST``, from some keys on.

    The factors that are not ``LENGTHS`` have one level throughout.
    """
    queries, keys = range(1, LONGEST + 1), range(fewest, LONGEST + 1)
    return frozenset(levels_of_lengths(q, k) for q in queries for k in keys)


def levels_of_lengths(queries: int, keys: int) -> Levels:
    """The levels of all factors for two lengths, the rest as plain as can be."""
    problem = Problem(1, 1, 1, queries, keys, TILE)
    return levels_of(Question("", "", problem, BUNDLED))
