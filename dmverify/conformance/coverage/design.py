"""The program that makes the frozen rows: a greedy search that knows what a row costs.

Each step draws candidates around combinations that are still missing, improves them one factor at a
time, and keeps the one with most news for its cost. Round 0 is smoke: every variant once, and rows
until every pair is there. Rounds 1 to 7 give every variant another shape each, and rows are added
until every triple is there. A row that some kernels decline for its head dim (``SERVED_BY_ALL``
names those that all take) earns only the combinations that contain the head dim, so that pairs and
triples remain complete without it.

The rows do not depend on this program: it is run by hand, and what it wrote is committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dmverify.conformance.coverage.count import combinations_that_exist, length_levels
from dmverify.conformance.coverage.factors import FACTORS, LENGTHS, SERVED_BY_ALL, TILE, VALUES
from dmverify.conformance.coverage.needs import ALL, CLASS, NOTHING, Needs, needs_of
from dmverify.conformance.families import FAMILIES

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

RICH, POOR = 4e5, 1e5  # what a case costs beside its scores, in padded scores: few rows or many
MANY_ROWS = 20_000
ORDINARY = 16 * TILE**2  # scores of a row that only has to be there
LEAST = 4  # rows of a variant outside smoke
STARTS, TRIED, SWEEPS = 96, 6, 2
MASKING = ("head dim", "scale", "key tiles", "keys mod 64")
WEIGHT = {"32": 0.8, "64": 1.0, "96": 1.3, "128": 1.5, "256": 2.5}  # of a score, by head dim

NAMES = [factor.name for factor in FACTORS]
AT = {name: place for place, name in enumerate(NAMES)}
LENGTH_AT = [AT[name] for name in LENGTHS]
CELLS: I64 = np.array(sorted({tuple(row[i] for i in LENGTH_AT) for row in length_levels()}))
SQUARE = FACTORS[AT["queries to keys"]].levels.index("=")
SIZES = {
    name: np.array([int(word.strip("+")) for word in FACTORS[AT[name]].levels])
    for name in ("batch", "key heads", "group", "key tiles", "query tiles")
}


class Tally:
    """How many rows earn each combination of one strength."""

    def __init__(self, strength: int) -> None:
        sizes = [len(factor.levels) for factor in FACTORS]
        self._chosen = list(combinations(range(len(FACTORS)), strength))
        self._strides = np.zeros((len(FACTORS), len(self._chosen)), dtype=np.int64)
        self._base = np.zeros(len(self._chosen), dtype=np.int64)
        total = 0
        for column, which in enumerate(self._chosen):
            self._base[column] = total
            stride = 1
            for f in reversed(which):
                self._strides[f, column] = stride
                stride *= sizes[f]
            total += stride
        self.wanted: Flags = np.zeros(total, dtype=bool)
        self.without_values: Flags = np.zeros(total, dtype=bool)
        self.count = np.zeros(total, dtype=np.int64)
        for which, every in combinations_that_exist(strength).items():
            column = self._chosen.index(which)
            levels = np.array(sorted(every))
            places = self._base[column] + levels @ self._strides[list(which), column]
            self.wanted[places] = True
            self.without_values[places] = AT["values"] not in which
        self._contains = np.array(
            [[f in which for which in self._chosen] for f in range(len(FACTORS))]
        )

    def places(self, rows: I64, shows: str) -> tuple[I64, Flags]:
        """(n, C) indices of each row's combinations, and which of them the row earns."""
        earned = np.full((len(rows), len(self._chosen)), shows != NOTHING)
        for name, asked in _must_name(rows, shows).items():
            earned &= ~asked[:, None] | self._contains[AT[name]][None, :]
        earned &= ~((rows < 0) @ self._contains)  # a factor without a level
        return np.maximum(rows, 0) @ self._strides + self._base, earned

    @property
    def open(self) -> Flags:
        """Which combinations exist and no row earns."""
        found: Flags = self.wanted & (self.count == 0)
        return found

    def of_this(self, rows: I64, shows: str, open_: Flags) -> I64:
        """How many of some combinations each row earns."""
        index, earned = self.places(rows, shows)
        found: I64 = (open_[index] & earned).sum(axis=1)
        return found

    def add(self, row: I64, shows: str, times: int = 1) -> None:
        """Counts a row in, or out."""
        index, earned = self.places(row[None, :], shows)
        self.count[index[earned]] += times

    def only_here(self, row: I64, shows: str) -> Flags:
        """The combinations that this row alone earns, which is counted."""
        index, earned = self.places(row[None, :], shows)
        mine = np.zeros(len(self.count), dtype=bool)
        mine[index[earned]] = True
        found: Flags = mine & self.wanted & (self.count == 1)
        return found

    def some(self, random: np.random.Generator, open_: Flags, count: int) -> list[dict[int, int]]:
        """Some of the missing combinations: levels by factor."""
        found = np.flatnonzero(open_)
        if not len(found):
            return []
        out = []
        for place in random.choice(found, count):
            column = int(np.searchsorted(self._base, place, side="right")) - 1
            which, rest = self._chosen[column], int(place - self._base[column])
            levels = {}
            for f in which:
                levels[f], rest = divmod(rest, int(self._strides[f, column]))
            out.append(levels)
        return out


def _must_name(rows: I64, shows: str) -> dict[str, Flags]:
    """``factors.must_name`` of many rows: by factor, which rows need it in a combination."""
    levels = {name: np.array(FACTORS[AT[name]].levels)[rows[:, AT[name]]] for name in MASKING}
    one_key = (levels["key tiles"] == "1") & (levels["keys mod 64"] == "1")
    return {
        "head dim": ~np.isin(levels["head dim"], [str(d) for d in SERVED_BY_ALL]),
        "scale": levels["scale"] == "zero",
        "key tiles": one_key,
        "keys mod 64": one_key,
        "values": np.full(len(rows), shows == CLASS),
    }


@dataclass(frozen=True)
class Space:
    """What a variant may be asked: the rows of levels that fit its needs."""

    id: str
    values: int
    needs: Needs

    @property
    def family(self) -> str:
        """Its family."""
        return self.id.partition("/")[0]

    def fits(self, rows: I64) -> Flags:
        """Which rows of levels this variant takes."""
        needs = self.needs
        levels = dict(zip(NAMES, rows.T, strict=True))
        sizes = {name: SIZES[name][levels[name]] for name in SIZES}
        ok: Flags = np.isin(levels["mask"], [("causal", "none").index(m) for m in needs.masks])
        ok &= sizes["key tiles"] >= needs.key_tiles
        ok &= sizes["query tiles"] >= needs.query_tiles
        ok &= sizes["batch"] >= needs.batch
        ok &= sizes["key heads"] >= needs.key_heads
        ok &= sizes["batch"] * sizes["key heads"] >= needs.parts
        if needs.square:
            ok &= levels["queries to keys"] == SQUARE
        ok &= self._scales()[levels["head dim"], levels["scale"]]
        return ok

    def _scales(self) -> Flags:
        """(head dim, scale) that one of the variant's values gives."""
        dims, levels = FACTORS[AT["head dim"]].levels, FACTORS[AT["scale"]].levels
        table = np.zeros((len(dims), len(levels)), dtype=bool)
        for i, dim in enumerate(dims):
            for level, values in self.needs.scales.items():
                usual = level == "own" and float(np.float32(int(dim) ** -0.5)) in values
                table[i, levels.index("default" if usual else level)] = True
        return table


def cost(rows: I64) -> npt.NDArray[np.float64]:
    """Padded scores of each row, weighted by the head dim."""
    heads = SIZES["batch"][rows[:, 0]] * SIZES["key heads"][rows[:, 1]] * SIZES["group"][rows[:, 2]]
    keys = SIZES["key tiles"][rows[:, AT["key tiles"]]]
    queries = SIZES["query tiles"][rows[:, AT["query tiles"]]].copy()
    more = FACTORS[AT["queries to keys"]].levels.index(">>")
    queries[(rows[:, AT["queries to keys"]] == more) & (keys == queries) & (keys == 5)] += 1
    weight = np.array([WEIGHT[d] for d in FACTORS[AT["head dim"]].levels])[rows[:, AT["head dim"]]]
    found: npt.NDArray[np.float64] = heads * keys * queries * float(TILE**2) * weight
    return found


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
        seed: Of its random choices.
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


def names_of(row: I64) -> dict[str, str]:
    """The words of a row's levels, by factor."""
    return {
        factor.name: factor.levels[int(level)] for factor, level in zip(FACTORS, row, strict=True)
    }


def ordinary(space: Space, *, number: int, tiles: int = 1) -> I64:
    """A row of some 16 tiles that a variant takes, with a head dim that every kernel serves.

    Args:
        space: The variant.
        number: Of the random choices.
        tiles: Least number of key tiles and of query tiles; of several, causal if it may be.
    """
    random = np.random.default_rng(number)
    rows = np.column_stack([random.integers(len(f.levels), size=MANY_ROWS) for f in FACTORS])
    rows[:, LENGTH_AT] = CELLS[random.integers(len(CELLS), size=len(rows))]
    rows[:, AT["values"]] = space.values
    fit = rows[space.fits(rows) & (rows[:, LENGTH_AT] >= 0).all(axis=1)]
    served = [FACTORS[AT["head dim"]].levels.index(str(dim)) for dim in SERVED_BY_ALL]
    fit = fit[np.isin(fit[:, AT["head dim"]], served)]
    if tiles > 1:
        for name in ("key tiles", "query tiles"):
            fit = fit[SIZES[name][fit[:, AT[name]]] >= tiles]
        causal = fit[:, AT["mask"]] == FACTORS[AT["mask"]].levels.index("causal")
        fit = fit[causal] if causal.any() else fit
        plain = fit[:, AT["scale"]] != FACTORS[AT["scale"]].levels.index("zero")
        fit = fit[plain] if plain.any() else fit
    found: I64 = fit[int(np.abs(cost(fit) - ORDINARY).argmin())]
    return found


def spaces() -> list[Space]:
    """Every variant that takes rows."""
    found = []
    for values, families in enumerate(VALUES.values()):
        for name in families:
            family = FAMILIES[name]
            for variant in family.variants:
                needs = needs_of(family, variant)
                if needs is not None:
                    found.append(Space(f"{name}/{variant}", values, needs))
    return found


def search(seed: int, say: Callable[[str], object]) -> list[Made]:
    """All rows, smoke's first."""
    state, every = Search(seed, say), spaces()
    state.smoke_rows(every)
    state.full_rows(every)
    return state.rows
