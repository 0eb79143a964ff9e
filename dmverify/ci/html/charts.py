"""What the HTML report draws, as plain numbers: every picture is a few rectangles.

| picture | shows |
|---|---|
| margins | the largest margin of each check in each family, on a scale of colours up to 1 |
| dots | the margin of every case, check by check, on a logarithmic axis; 1 is the bound |
| heat | how far outside its bounds an output is, over tokens and channels |
| ledger | the bound of every term of the row sum of dS, one above the other, and what was seen |

Coverage and kills are in ``maps``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dmverify.conformance.report.document import Document, SubjectRow

LOWEST = -6  # power of ten at the left end of the axis of margins
HIGHEST = 2
STEPS = 5  # colours of margins up to 1
BEYOND = (1.0, 10.0, 1000.0)  # each begins a colour more


@dataclass(frozen=True)
class Cell:
    """A cell of a table of margins: its number, its colour, its case."""

    text: str
    level: int
    case: str


@dataclass(frozen=True)
class Grid:
    """Numbers by family (rows) and check or output (columns)."""

    checks: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


@dataclass(frozen=True)
class Dot:
    """One case of one check, as a place between 0 and 1."""

    x: float
    outside: bool
    title: str


@dataclass(frozen=True)
class Bar:
    """One term of a ledger: its share of the whole bound, from 0 to 1."""

    name: str
    start: float
    width: float
    title: str


def level(margin: float | None) -> int:
    """The colour of a margin: 0 for none, 1 to ``STEPS`` up to 1, then one for each ``BEYOND``."""
    if margin is None:
        return 0
    beyond = sum(margin > least for least in BEYOND)
    return STEPS + beyond if beyond else min(STEPS, 1 + int(margin * STEPS))


def grid(subject: SubjectRow) -> Grid:
    """The largest margin of each family and check of one subject."""
    return _grid((case.id, case.margins) for case in subject.cases)


def error_grid(subject: SubjectRow) -> Grid:
    """The largest error from attention of each family and output of one subject."""
    return _grid(
        (case.id, {output: row.rms for output, row in case.errors.items()})
        for case in subject.cases
    )


def _grid(cases: Iterable[tuple[str, Mapping[str, float | None]]]) -> Grid:
    columns: dict[str, None] = {}
    worst: dict[str, dict[str, tuple[float, str]]] = {}
    for case_id, values in cases:
        columns |= dict.fromkeys(values)
        found = worst.setdefault(case_id.partition("/")[0], {})
        for name, value in values.items():
            if value is not None and value >= found.get(name, (-1.0, ""))[0]:
                found[name] = value, case_id
    rows = (
        (family, tuple(_cell(found.get(name)) for name in columns))
        for family, found in worst.items()
    )
    return Grid(tuple(columns), tuple(rows))


def _cell(found: tuple[float, str] | None) -> Cell:
    if found is None:
        return Cell("", 0, "")
    return Cell(number(found[0]), level(found[0]), found[1])


def dots(subject: SubjectRow) -> dict[str, tuple[Dot, ...]]:
    """The margins of all cases, by check; those of 0 stand at the left end."""
    found: dict[str, list[Dot]] = {}
    for case in subject.cases:
        for check, margin in case.margins.items():
            if margin is not None:
                title = f"{case.id}: {number(margin)}"
                found.setdefault(check, []).append(Dot(place(margin), margin > 1, title))
    return {check: tuple(some) for check, some in found.items() if any(dot.x for dot in some)}


def place(margin: float) -> float:
    """Where a margin stands on the axis, from 0 to 1."""
    power = math.log10(margin) if margin > 0 else LOWEST
    return (min(max(power, LOWEST), HIGHEST) - LOWEST) / (HIGHEST - LOWEST)


def ticks() -> list[tuple[float, str]]:
    """Places and names of the axis."""
    return [(place(10.0**power), f"1e{power}" if power else "1") for power in range(LOWEST, 3, 2)]


def heat_cells(heat: Mapping[str, Any]) -> list[tuple[int, int, int, str]]:
    """Row, column, colour and margin of each cell of a picture of margins."""
    return [
        (i, j, level(margin), number(margin))
        for i, row in enumerate(heat["cells"])
        for j, margin in enumerate(row)
    ]


def bars(terms: Iterable[tuple[str, float]]) -> tuple[Bar, ...]:
    """Terms of a bound as parts of their sum, in the order given."""
    known = [(name, size) for name, size in terms if math.isfinite(size) and size > 0]
    total, start, made = math.fsum(size for _, size in known), 0.0, []
    for name, size in known:
        made.append(Bar(name, start, size / total, f"{name}: {number(size)}"))
        start += size / total
    return tuple(made)


def number(value: float | None) -> str:
    """Three digits; what is as large as a float64 can be stands for infinity."""
    if value is None:
        return ""
    return "infinite" if value > 1e300 else f"{value:.3g}"


def families(document: Document) -> Sequence[tuple[str, int, float]]:
    """Families, their cases, and their share of the largest."""
    most = max(document.coverage.values(), default=1)
    return [(name, count, count / most) for name, count in document.coverage.items()]
