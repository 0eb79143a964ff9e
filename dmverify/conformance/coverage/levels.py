"""Rows of levels as arrays: (n, factors) of the index of each factor's level, -1 for none."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dmverify.conformance.coverage.count import length_levels
from dmverify.conformance.coverage.factors import FACTORS, LENGTHS, TILE

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

WEIGHT = {"32": 0.8, "64": 1.0, "96": 1.3, "128": 1.5, "256": 2.5}  # of a score, by head dim

NAMES = [factor.name for factor in FACTORS]
AT = {name: place for place, name in enumerate(NAMES)}
LENGTH_AT = [AT[name] for name in LENGTHS]
CELLS: I64 = np.array(sorted({tuple(row[i] for i in LENGTH_AT) for row in length_levels()}))
"""Every combination of levels that two lengths have."""
SQUARE = FACTORS[AT["queries to keys"]].levels.index("=")
SIZES = {
    name: np.array([int(word.strip("+")) for word in FACTORS[AT[name]].levels])
    for name in ("batch", "key heads", "group", "key tiles", "query tiles")
}


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


def names_of(row: I64) -> dict[str, str]:
    """The words of a row's levels, by factor."""
    return {
        factor.name: factor.levels[int(level)] for factor, level in zip(FACTORS, row, strict=True)
    }
