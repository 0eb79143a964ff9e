"""The rows that a variant takes: its needs, on rows of levels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmverify.conformance.coverage.factors import FACTORS, SERVED_BY_ALL, TILE, VALUES
from dmverify.conformance.coverage.levels import (
    AT,
    CELLS,
    I64,
    LENGTH_AT,
    NAMES,
    SIZES,
    SQUARE,
    Flags,
    cost,
)
from dmverify.conformance.coverage.needs import Needs, needs_of
from dmverify.conformance.families import FAMILIES
from dmverify.conformance.selection import OF_SOME

MANY_ROWS = 20_000
ORDINARY = 16 * TILE**2  # scores of a row that only has to be there


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


def ordinary(space: Space, *, number: int, tiles: int = 1) -> I64:
    """A row of some 16 tiles that a variant takes, with a head dim that every kernel serves.

    Args:
        space: The variant.
        number: Number that chooses among the random choices.
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
    """Every variant that takes rows; one of some contracts alone would earn the others nothing."""
    found = []
    for values, families in enumerate(VALUES.values()):
        for name in families:
            family = FAMILIES[name]
            for variant in family.variants:
                needs = needs_of(family, variant)
                if needs is not None and OF_SOME.keys().isdisjoint(family.flags_of(variant)):
                    found.append(Space(f"{name}/{variant}", values, needs))
    return found
