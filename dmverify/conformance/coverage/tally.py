"""How many rows earn each pair or triple of levels."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from dmverify.conformance.coverage.count import combinations_that_exist
from dmverify.conformance.coverage.factors import FACTORS, SERVED_BY_ALL
from dmverify.conformance.coverage.levels import AT, I64, Flags
from dmverify.conformance.coverage.needs import CLASS, NOTHING

MASKING = ("head dim", "scale", "key tiles", "keys mod 64")


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
        """Draws some of the missing combinations: levels by factor."""
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
