"""The frozen rows: which shape, delta mode and cast each variant takes, and whether smoke has it.

``rows.csv`` was made once (``lab.coverage.design``) and is data: neither ids nor levels depend on
the program. Nine of full's rows went to smoke later, for kinds of values that it lacked somewhere
(``kinds``).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

COLUMNS = ("variant", "fields", "seed", "delta", "cast", "level")
SMOKE = "smoke"


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        variant: ``family/variant``.
        fields: The problem's fields, as they stand in an id; empty for the variant's own shape.
        seed: What is added to the level's first seed.
        delta: Delta mode, for a kernel that serves several.
        cast: Cast of dS, likewise.
        smoke: Whether smoke has it; full has every row.
    """

    variant: str
    fields: str
    seed: int
    delta: str
    cast: str
    smoke: bool

    def case_id(self, seed: int) -> str:
        """The id, for a level's first seed."""
        fields = f",{self.fields}" if self.fields else ""
        return f"{self.variant}{fields}@{seed + self.seed}"


@cache
def frozen_rows() -> Mapping[str, tuple[Row, ...]]:
    """All rows by variant, smoke's first."""
    text = (files(__package__) / "rows.csv").read_text()
    found: dict[str, list[Row]] = {}
    for word in csv.DictReader(text.splitlines()):
        row = Row(
            word["variant"],
            word["fields"],
            int(word["seed"]),
            word["delta"],
            word["cast"],
            word["level"] == SMOKE,
        )
        found.setdefault(row.variant, []).append(row)
    return {variant: tuple(rows) for variant, rows in found.items()}
