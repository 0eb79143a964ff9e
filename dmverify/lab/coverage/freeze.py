"""From rows of levels to the frozen table: lengths, scales and seeds are chosen here."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable
from itertools import count, product
from math import gcd

import numpy as np

from dmverify.conformance.coverage.count import LONGEST, levels_of_lengths
from dmverify.conformance.coverage.factors import TILE
from dmverify.conformance.coverage.levels import AT, LENGTH_AT, names_of
from dmverify.conformance.coverage.rows import COLUMNS
from dmverify.conformance.coverage.space import Space, ordinary
from dmverify.conformance.families import FAMILIES
from dmverify.conformance.families.family import Variant
from dmverify.lab.coverage.design import LEAST, Made
from dmverify.spec.contracts import DELTAS, DS_CASTS

SEEDS = 8
MODES = tuple(product(DELTAS, DS_CASTS))
ALL = len(MODES)
STEP = next(n for n in count(7) if gcd(n, ALL) == 1)  # so that as many seeds as modes meet all

# Variants that keep their shape: what their ids set, the mode that smoke asks them in (the one that
# shows their point, where only some do), and how many modes they meet in full.
KEPT: dict[str, tuple[str, tuple[str, str], int]] = {
    "positive-v/short": ("", ("matched", "nearest"), ALL),
    "positive-v/keys-1k": ("", ("shifted", "zero-sum"), ALL),
    "integers/balanced": ("", ("matched", "nearest"), ALL),
    "integers/one-sided": ("", ("renormalized", "zero-sum"), ALL),
    "integers/two-blocks": ("", ("associated", "nearest"), ALL),
    "rounding/quotient-ties": ("", ("stale", "nearest"), ALL),
    "rounding/quotient-near-ties": ("", ("consistent", "zero-sum"), ALL),
    "cast-ties/ds": ("", ("matched", "nearest"), ALL),
    "cast-ties/ds-offset": ("", ("renormalized", "nearest"), ALL),
    "cast-ties/p": ("", ("matched", "nearest"), ALL),
    "deciding/spikes": ("head_dim=64", ("renormalized", "nearest"), 5),
    "deciding/shift-level": ("head_dim=64", ("matched", "nearest"), ALL),
    "deciding/delta-level": ("head_dim=64", ("shifted", "nearest"), ALL),
    "exponentials/tile": ("", ("matched", "nearest"), ALL),
    "exponentials/pair": ("", ("shifted", "zero-sum"), ALL),
}


def frozen(made: Iterable[Made], spaces: Iterable[Space]) -> str:
    """The table as CSV, smoke's rows first, then by variant."""
    made = list(made)
    spaces = list(spaces)
    made += _several_tiles(made, spaces)
    made += _few(made, spaces)
    made += _unmet_contracts(made, spaces)
    lines: list[tuple[str, str, int, str, str, str]] = []
    used, seen = Counter[str](), set[tuple[str, str, int]]()
    random = np.random.default_rng(0)
    lengths = _by_cell()
    for row in sorted(made, key=lambda row: (not row.smoke, row.space.id)):
        seed = 0 if row.smoke else 1 + used[row.space.id] % (SEEDS - 1)
        used[row.space.id] += not row.smoke
        fields = _fields(row, lengths, random)
        if (row.space.id, fields, seed) in seen:
            continue
        seen.add((row.space.id, fields, seed))
        words = names_of(row.levels)
        level = "smoke" if row.smoke else "full"
        lines.append((row.space.id, fields, seed, words["delta"], words["cast"], level))
    lines += _own_shapes()
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(lines)
    return out.getvalue()


def _own_shapes() -> list[tuple[str, str, int, str, str, str]]:
    """Rows of the variants that keep their shape: one seed for each mode."""
    lines = []
    for variant, (fields, mode, modes) in KEPT.items():
        for seed in range(modes):
            delta, cast = MODES[(MODES.index(mode) + STEP * seed) % ALL]
            lines.append((variant, fields, seed, delta, cast, "full" if seed else "smoke"))
    return lines


def _by_cell() -> dict[tuple[int, ...], list[tuple[int, int]]]:
    """Lengths by their levels: all that need the fewest tiles."""
    found: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for queries in range(1, LONGEST + 1):
        for keys in range(1, LONGEST + 1):
            levels = levels_of_lengths(queries, keys)
            found.setdefault(tuple(levels[i] for i in LENGTH_AT), []).append((queries, keys))
    area = {cell: min(_tiles(x) for x in pairs) for cell, pairs in found.items()}
    return {c: [x for x in pairs if _tiles(x) == area[c]] for c, pairs in found.items()}


def _tiles(lengths: tuple[int, int]) -> int:
    return -(-lengths[0] // TILE) * -(-lengths[1] // TILE)


def _fields(
    row: Made, lengths: dict[tuple[int, ...], list[tuple[int, int]]], random: np.random.Generator
) -> str:
    words = names_of(row.levels)
    pairs = lengths[tuple(int(row.levels[i]) for i in LENGTH_AT)]
    queries, keys = pairs[int(random.integers(len(pairs)))]
    kv_heads = int(words["key heads"])
    numbers = {
        "batch": int(words["batch"].strip("+")),
        "heads": kv_heads * int(words["group"]),
        "kv_heads": kv_heads,
        "queries": queries,
        "keys": keys,
        "head_dim": int(words["head dim"]),
        "causal": int(words["mask"] == "causal"),
    }
    text = ",".join(f"{name}={number}" for name, number in numbers.items())
    scale = _scale(row, words, random)
    return text if scale is None else f"{text},softmax_scale={scale!r}"


def _scale(row: Made, words: dict[str, str], random: np.random.Generator) -> float | None:
    """What the id has to say about the scale; None where the variant's own will do."""
    scales, dim = row.space.needs.scales, int(words["head dim"])
    own = _variant(row.space.id).problem.get("softmax_scale")
    if words["scale"] == "default":
        values: list[float | None] = [None if own is None else dim**-0.5]
    else:
        values = [
            x for x in scales[words["scale"]] if x is not None and _single(x) != _single(dim**-0.5)
        ]
    scale = values[int(random.integers(len(values)))]
    same = own is not None and scale is not None and _single(scale) == _single(own)
    return None if same else scale


def _single(x: float) -> float:
    return float(np.float32(x))


def _variant(name: str) -> Variant:
    family, _, variant = name.partition("/")
    return FAMILIES[family].variants[variant]


def _several_tiles(made: list[Made], spaces: list[Space]) -> list[Made]:
    """An ordinary row in smoke for variants of which smoke has no block of several tiles.

    A zero block, a NaN or a tiny tile shows most where other tiles lie beside it, some of them
    unseen by a block of rows.
    """
    large = {row.space.id for row in made if row.smoke and _has_tiles(row)}
    left = [space for space in spaces if space.id not in large]
    return [Made(s, ordinary(s, number=2000 + n, tiles=2), smoke=True) for n, s in enumerate(left)]


def _has_tiles(row: Made) -> bool:
    tiles = (AT["key tiles"], AT["query tiles"])
    return all(row.levels[place] != 0 for place in tiles) and row.levels[AT["mask"]] == 0


def _few(made: list[Made], spaces: list[Space]) -> list[Made]:
    """Ordinary rows for variants that would have few beside smoke's."""
    have = Counter(row.space.id for row in made if not row.smoke)
    return [
        Made(space, ordinary(space, number=LEAST * place + n), smoke=False)
        for place, space in enumerate(spaces)
        for n in range(have[space.id], LEAST)
    ]


def _unmet_contracts(made: list[Made], spaces: list[Space]) -> list[Made]:
    """Ordinary rows, so that every family is asked under every delta mode and cast."""
    found = []
    for family in dict.fromkeys(space.family for space in spaces):
        mine = [row for row in made if row.space.family == family]
        met = {(int(r.levels[AT["delta"]]), int(r.levels[AT["cast"]])) for r in mine}
        every = product(range(len(DELTAS)), range(len(DS_CASTS)))
        own = [space for space in spaces if space.family == family]
        for place, pair in enumerate(pair for pair in every if pair not in met):
            levels = ordinary(own[place % len(own)], number=1000 + place)
            levels[[AT["delta"], AT["cast"]]] = pair
            found.append(Made(own[place % len(own)], levels, smoke=False))
    return found
