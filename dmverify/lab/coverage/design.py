"""The search for the frozen rows: greedy, and it knows what a row costs.

Each step draws candidates around combinations that are still missing, improves them one factor at a
time, and keeps the one with most news for its cost. Smoke comes first: every variant, and rows
until every pair is there; then rows of full until every triple is there. Of both, rows are made
cheaper afterwards, or dropped, where others earn what they earn. What a row earns is what
``factors.must_name`` lets it count for.

The levels do not depend on this program: it is run by hand, and what it wrote is committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dmverify.conformance.coverage.factors import FACTORS
from dmverify.conformance.coverage.levels import (
    AT,
    CELLS,
    F64,
    I64,
    LENGTH_AT,
    SIZES,
    Flags,
    cost,
)
from dmverify.conformance.coverage.needs import ALL
from dmverify.conformance.coverage.space import Space, spaces
from dmverify.conformance.coverage.tally import Tally

RICH, POOR = 4e5, 1e5  # what a case costs beside its scores, in padded scores: few rows or many
LEAST = 4  # rows of a variant outside smoke
STARTS, TRIED, SWEEPS = 96, 6, 2


Found: TypeAlias = "tuple[float, Space, I64]"


@dataclass
class Made:
    """A row of the design.

    Attributes:
        space: The variant that takes it.
        levels: Level of every factor.
        smoke: Whether smoke has it.
    """

    space: Space
    levels: I64
    smoke: bool


class Search:
    """The state of the greedy search.

    Args:
        seed: Seed of its random choices.
        say: Told how far it is.
    """

    def __init__(self, seed: int, say: Callable[[str], object]) -> None:
        self.random = np.random.default_rng(seed)
        self.tally = Tally(2)
        self.rows: list[Made] = []
        self.smoke = True
        self.one_case = 0.0
        self.say = say

    def smoke_rows(self, every: Sequence[Space]) -> None:
        """Every pair, and every variant."""
        telling = [space for space in every if space.needs.shows == ALL]
        self.fill(telling, self.tally.without_values, RICH)
        left = self.unused(every, 1)
        while left:
            self.step(left, self.tally.wanted, POOR)
            left = self.unused(every, 1)
        self.fill(every, self.tally.wanted, POOR)
        self.shrink()

    def full_rows(self, every: Sequence[Space]) -> None:
        """Every triple, and every variant several times."""
        self.tally, self.smoke = Tally(3), False
        for made in self.rows:
            self.tally.add(made.levels, made.space.needs.shows)
        telling = [space for space in every if space.needs.shows == ALL]
        self.fill(telling, self.tally.without_values, RICH)
        left = self.unused(every, LEAST)
        while left:
            self.step(left, self.tally.wanted, POOR)
            left = self.unused(every, LEAST)
        self.fill(every, self.tally.wanted, POOR)
        self.shrink()

    def fill(self, spaces: Sequence[Space], wanted: Flags, one_case: float) -> None:
        """Adds rows of some variants until they earn what is wanted."""
        while (self.tally.open & wanted).any():
            self.step(spaces, wanted, one_case)

    def unused(self, every: Sequence[Space], least: int) -> list[Space]:
        """The variants with fewer rows, outside smoke if that is done."""
        used = Counter(made.space.id for made in self.rows if made.smoke == self.smoke)
        return [space for space in every if used[space.id] < least]

    def step(self, spaces: Sequence[Space], wanted: Flags, one_case: float) -> None:
        """Adds the best row that one of the variants takes."""
        self.one_case = one_case
        open_ = self.tally.open & wanted
        starts = [
            (self.value(row[None, :], space, open_)[0], space, row)
            for space, row in self._starts(spaces, open_)
        ]
        starts.sort(key=lambda found: (-found[0], found[1].id))
        better = [self._improved(found, open_) for found in starts[:TRIED]]
        _, space, row = max(better, key=lambda found: found[0])
        self.tally.add(row, space.needs.shows)
        self.rows.append(Made(space, row, self.smoke))
        if len(self.rows) % 50 == 0:
            self.report()

    def report(self) -> None:
        """Says how far it is."""
        total = sum(float(cost(made.levels[None, :])[0]) for made in self.rows)
        self.say(f"{len(self.rows)} rows, {total / 1e6:.1f} M, {self.tally.open.sum()} open")

    def value(self, rows: I64, space: Space, open_: Flags) -> F64:
        """News for cost."""
        news = self.tally.of_this(rows, space.needs.shows, open_)
        found: F64 = (news + 1e-3) / (cost(rows) + self.one_case)
        return found

    def shrink(self) -> None:
        """Makes rows cheaper, or drops them, where others earn what they earn."""
        self.report()
        mine = [made for made in self.rows if made.smoke == self.smoke]
        for made in sorted(mine, key=lambda made: -float(cost(made.levels[None, :])[0])):
            shows = made.space.needs.shows
            need = self.tally.only_here(made.levels, shows)
            self.tally.add(made.levels, shows, -1)
            same = sum(other.space == made.space for other in mine)
            if not need.any() and same > (1 if self.smoke else LEAST):
                self.rows = [other for other in self.rows if other is not made]
                mine = [other for other in mine if other is not made]
                continue
            made.levels = self._cheaper(made, need)
            self.tally.add(made.levels, shows)
        self.report()

    def _cheaper(self, made: Made, need: Flags) -> I64:
        row, total = made.levels, int(need.sum())
        for _ in range(SWEEPS):
            for others in _neighbours(row):
                fit = others[made.space.fits(others)]
                fit = fit[self.tally.of_this(fit, made.space.needs.shows, need) == total]
                if len(fit) and cost(fit).min() < cost(row[None, :])[0]:
                    row = fit[int(cost(fit).argmin())]
        return row

    def _starts(self, spaces: Sequence[Space], open_: Flags) -> list[tuple[Space, I64]]:
        """Rows around missing combinations, each with a variant that takes it."""
        planted = self.tally.some(self.random, open_, STARTS) or [{}] * STARTS
        found: list[tuple[Space, I64]] = []
        while not found:
            for fixed in planted:
                values = fixed.get(AT["values"])
                able = [space for space in spaces if values in (None, space.values)] or list(spaces)
                space = able[int(self.random.integers(len(able)))]
                row = self._drawn(fixed, space)
                if row is not None:
                    found.append((space, row))
        return found

    def _drawn(self, fixed: dict[int, int], space: Space) -> I64 | None:
        """A row with some levels given, small sizes likelier; None if none was found."""
        cells = CELLS
        for column, place in enumerate(LENGTH_AT):
            if place in fixed:
                cells = cells[cells[:, column] == fixed[place]]
        odds = 1.0 / (SIZES["key tiles"][cells[:, 1]] * SIZES["query tiles"][cells[:, 3]])
        for _ in range(8):
            row = np.array([self.random.integers(len(factor.levels)) for factor in FACTORS])
            for name in ("batch", "key heads", "group"):
                few = 1.0 / SIZES[name]
                row[AT[name]] = self.random.choice(len(few), p=few / few.sum())
            row[LENGTH_AT] = cells[self.random.choice(len(cells), p=odds / odds.sum())]
            row[list(fixed)] = list(fixed.values())
            row[AT["values"]] = space.values
            if space.fits(row[None, :])[0]:
                return row
        return None

    def _improved(self, found: Found, open_: Flags) -> Found:
        value, space, row = found
        for _ in range(SWEEPS):
            before = value
            for others in _neighbours(row):
                fit = others[space.fits(others)]
                values = self.value(fit, space, open_)
                if len(values) and values.max() > value:
                    value, row = float(values.max()), fit[int(values.argmax())]
            if value == before:
                break
        return value, space, row


def _neighbours(row: I64) -> Iterator[I64]:
    """Rows that differ in one factor, or in the lengths."""
    for place, factor in enumerate(FACTORS):
        if place in LENGTH_AT or factor.name == "values":
            continue
        others = np.repeat(row[None, :], len(factor.levels), axis=0)
        others[:, place] = np.arange(len(factor.levels))
        yield others
    others = np.repeat(row[None, :], len(CELLS), axis=0)
    others[:, LENGTH_AT] = CELLS
    yield others


def search(seed: int, say: Callable[[str], object]) -> list[Made]:
    """All rows, smoke's first."""
    state, every = Search(seed, say), spaces()
    state.smoke_rows(every)
    state.full_rows(every)
    return state.rows
