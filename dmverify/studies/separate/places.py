"""Names of the runs that predictions and advice are about."""

from __future__ import annotations

from collections.abc import Sequence

from dmverify.studies.separate.table import STALE
from dmverify.studies.training.read import Record, key_of
from dmverify.studies.training.recipe import Recipe, kernel

Place = tuple[str, str]
"""Label and name of a run."""
FAST, ACT, REAL, LATE = "fast-biases", "act", "kernel-fast-biases", "late-fast"
FREE = "factor-no-decay"
EXACT, PUSHED = (FAST, "exact"), (FAST, STALE.name)


def of(label: str, recipe: Recipe) -> Place:
    """Where the run of a recipe is."""
    return label, recipe.name


def exact(label: str) -> Place:
    """Where a group has exact attention."""
    return label, "exact"


def real(delta: str, label: str = REAL, **words: str) -> Place:
    """Where the run of the bundled kernel is."""
    return of(label, kernel(delta, **words))


def at(records: Sequence[Record], place: Place) -> Record | None:
    """The run of a place, or None."""
    return key_of(records, label=place[0], name=place[1])
