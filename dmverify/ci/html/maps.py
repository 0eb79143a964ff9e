"""What a run reached: the conditions that its cases meet, and the faults that its checks see.

| picture | shows |
|---|---|
| coverage map | of each factor of ``conformance.coverage``, how many judged cases have each level |
| lengths | how many judged cases have so many tiles of queries (rows) and of keys (columns) |
| kill matrix | of the known faults with one cause (rows), how many each check rejects (columns) |

The kill matrix is read off the signatures of seeded faults (``conformance.causes``): what rejected
them on the laboratory's cases. It speaks of the checks that judged here, not of the cases here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from dmverify.conformance.causes.rank import Signatures, signatures
from dmverify.conformance.coverage.factors import FACTORS, ask, levels_of
from dmverify.conformance.report.document import Document, SubjectRow
from dmverify.errors import DmverifyError

OF_PROBLEM = tuple(n for n, factor in enumerate(FACTORS) if not factor.contract)
TILES = ("query tiles", "key tiles")
STEPS = 5  # colours of counts, as of margins


@dataclass(frozen=True)
class Count:
    """A cell: a number and its colour, 0 for none to ``STEPS`` for the most."""

    name: str
    number: int
    level: int


@dataclass(frozen=True)
class CoverageMap:
    """Where the cases of one kernel lie.

    Attributes:
        factors: The levels of every factor, with the number of cases.
        columns: Levels of key tiles.
        lengths: By level of query tiles, the number of cases at each level of key tiles.
    """

    factors: tuple[tuple[str, tuple[Count, ...]], ...]
    columns: tuple[str, ...]
    lengths: tuple[tuple[str, tuple[Count, ...]], ...]


@dataclass(frozen=True)
class Kills:
    """The kill matrix.

    Attributes:
        checks: Its columns.
        rows: Of each cause, its words, how many faults have it, how many each check rejects.
        killed: How many faults any of the checks rejects.
        known: How many there are.
    """

    checks: tuple[str, ...]
    rows: tuple[tuple[str, int, tuple[Count, ...]], ...]
    killed: int
    known: int


def coverage_map(subject: SubjectRow) -> CoverageMap:
    """The conditions that the judged cases of a kernel meet; nothing is known of cases of files.

    Args:
        subject: The kernel and its cases.
    """
    met: Counter[tuple[int, int]] = Counter()
    lengths: Counter[tuple[int, int]] = Counter()
    names = [factor.name for factor in FACTORS]
    queries, keys = (names.index(name) for name in TILES)
    columns = FACTORS[keys].levels
    for case in subject.cases:
        if case.verdict == "unsupported" or (levels := _levels(case.id, subject.contract)) is None:
            continue
        met.update((n, levels[n]) for n in OF_PROBLEM)
        lengths[levels[queries], levels[keys]] += 1
    return CoverageMap(
        tuple((FACTORS[n].name, _counted(n, met)) for n in OF_PROBLEM),
        columns,
        tuple(
            (name, _row(columns, [lengths[i, j] for j in range(len(columns))]))
            for i, name in enumerate(FACTORS[queries].levels)
        ),
    )


def _levels(case_id: str, contract: str) -> tuple[int, ...] | None:
    try:
        return levels_of(ask(case_id, contract))
    except DmverifyError:  # of another version, or of a file that is not here
        return None


def _counted(factor: int, met: Counter[tuple[int, int]]) -> tuple[Count, ...]:
    names = FACTORS[factor].levels
    return _row(names, [met[factor, level] for level in range(len(names))])


def _row(names: tuple[str, ...], numbers: list[int]) -> tuple[Count, ...]:
    most = max(numbers, default=0)
    pairs = zip(names, numbers, strict=True)
    return tuple(Count(name, number, shade(number, most)) for name, number in pairs)


def shade(number: int, most: int) -> int:
    """The colour of a count: 0 for none, up to ``STEPS`` for the most."""
    return -(-STEPS * number // most) if most else 0


def kills(document: Document) -> Kills:
    """Which known faults the checks of a report reject.

    Args:
        document: A report.
    """
    known = signatures()
    judged = {row.id for row in document.checks if row.judged}
    checks = tuple(name for name in known.words if name in known.checks & judged)
    by_fault = _rejected(known, checks)
    rows = []
    for words, faults in known.causes.values():
        total = len(faults)
        numbers = [sum(check in by_fault.get(one, ()) for one in faults) for check in checks]
        cells = tuple(
            Count(check, number, shade(number, total))
            for check, number in zip(checks, numbers, strict=True)
        )
        rows.append((words, total, cells))
    every = {one for _, some in known.causes.values() for one in some}
    return Kills(checks, tuple(rows), sum(bool(by_fault.get(one)) for one in every), len(every))


def _rejected(known: Signatures, checks: tuple[str, ...]) -> dict[str, set[str]]:
    """For each fault, the checks that reject it on a case; a check's own name is such a word."""
    place = {word: n for n, word in enumerate(known.words)}
    found: dict[str, set[str]] = {}
    for fault, row in zip(known.faults, known.has, strict=True):
        found.setdefault(fault, set()).update(one for one in checks if row[place[one]])
    return found
