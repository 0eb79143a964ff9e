"""What became worse from one run to the next: verdicts, margins, accuracy, coverage, speed.

| row | of | is worse if |
|---|---|---|
| verdict | kernel, check | it is more severe |
| margin | kernel, check | the worst one grew by more than the limit, and by more than ``LEAST`` |
| error | kernel, output | the median or the largest from attention grew by more than the limit |
| served | kernel | fewer of its cases |
| coverage | family | fewer cases were asked |
| time | kernel, shape, pass | cold or back to back, grew by more than the limit; or it is gone |

A limit is a fraction; what is measured only by one of the runs is shown and is not worse, but for
what is gone. Not covered: whether two runs asked the same seeds and level, which a note says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dmverify.ci.documents import Timings
from dmverify.conformance.report.document import CheckRow, Document, SubjectRow
from dmverify.conformance.verdict import SEVERITY
from dmverify.errors import InputError

LEAST = 0.01  # of a bound: margins that grow from 0.0001 to 0.0002 tell nothing
ORDER = {verdict.value: place for place, verdict in enumerate(SEVERITY)}
TIMES = ("cold_ms", "busy_ms")
HEADS = ("", "of", "old", "new", "change", "")


@dataclass(frozen=True)
class Change:
    """One quantity in both runs.

    Attributes:
        what: Word of the table.
        of: What it is of.
        old: Before; None if it was not measured.
        new: After; None if it was not measured.
        worse: Whether it became worse by more than the limit.
    """

    what: str
    of: str
    old: float | str | None
    new: float | str | None
    worse: bool

    @property
    def change(self) -> str:
        """The relative change in words; empty where there is none to tell."""
        if not isinstance(self.old, int | float) or not isinstance(self.new, int | float):
            return ""
        return f"{self.new / self.old - 1:+.1%}" if self.old else ""

    @property
    def cells(self) -> tuple[str, ...]:
        """Its row in a table under ``HEADS``."""
        numbers = (_text(self.old), _text(self.new), self.change)
        return (self.what, self.of, *numbers, "worse" if self.worse else "")


def compare(
    old: Document | Timings, new: Document | Timings, *, limit: float
) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """Every quantity of two runs, and notes on what makes them unlike.

    Args:
        old: The run before.
        new: The run after.
        limit: By how much a quantity may grow, as a fraction.

    Raises:
        InputError: For a report beside timings, or a limit below 0.
    """
    if not limit >= 0:
        raise InputError(
            f"limit {limit}", rule="a limit is 0 % or more", fix="pass --fail-if-worse 10%"
        )
    if isinstance(old, Document) and isinstance(new, Document):
        return tuple(_reports(old, new, limit)), tuple(_unlike(old, new))
    if isinstance(old, Timings) and isinstance(new, Timings):
        return tuple(_timings(old, new, limit)), tuple(_other_card(old, new))
    raise InputError(
        "a report beside timings",
        rule="two reports are compared, or two sets of timings",
        fix="name two reports, or two files of 'dmverify bench --json'",
    )


def _unlike(old: Document, new: Document) -> Iterator[str]:
    for name in ("level", "seed", "contract", "made_with"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield f"{name.replace('_', ' ')}: {before} before, {after} now"


def _other_card(old: Timings, new: Timings) -> Iterator[str]:
    if (old.gpu, old.torch) != (new.gpu, new.torch):
        yield f"{old.gpu} with torch {old.torch} before, {new.gpu} with torch {new.torch} now"


def _reports(old: Document, new: Document, limit: float) -> Iterator[Change]:
    before = {(row.kernel, row.id): row for row in old.checks}
    after = {(row.kernel, row.id): row for row in new.checks}
    for key in dict.fromkeys((*before, *after)):
        yield from _check("/".join(key), before.get(key), after.get(key), limit)
    yield from _served(old.subjects, new.subjects)
    for family in sorted({*old.coverage, *new.coverage}):
        counts = old.coverage.get(family, 0), new.coverage.get(family, 0)
        yield Change("coverage", family, counts[0], counts[1], worse=counts[1] < counts[0])


def _check(of: str, old: CheckRow | None, new: CheckRow | None, limit: float) -> Iterator[Change]:
    words = [None if row is None else row.verdict for row in (old, new)]
    severe = new is not None and old is not None and ORDER[new.verdict] < ORDER[old.verdict]
    yield Change("verdict", of, words[0], words[1], worse=new is None or severe)
    margins = [None if row is None else row.margin for row in (old, new)]
    yield Change(
        "margin",
        of,
        margins[0],
        margins[1],
        worse=_grew(margins[0], margins[1], limit=limit, least=LEAST),
    )
    for name in ("median", "largest"):
        errors = [_error(row, name) for row in (old, new)]
        if errors != [None, None]:
            worse = _grew(errors[0], errors[1], limit=limit)
            yield Change("error", f"{of} {name}", errors[0], errors[1], worse=worse)


def _error(row: CheckRow | None, name: str) -> float | None:
    found: float | None = None
    if row is not None and row.errors is not None:
        found = getattr(row.errors, name)
    return found


def _grew(old: float | None, new: float | None, *, limit: float, least: float = 0.0) -> bool:
    if old is None or new is None:
        return False
    return new > old * (1 + limit) and new - old > least


def _served(old: Iterable[SubjectRow], new: Iterable[SubjectRow]) -> Iterator[Change]:
    before, after = ({row.kernel: _fraction(row) for row in rows} for rows in (old, new))
    for kernel in dict.fromkeys((*before, *after)):
        pair = before.get(kernel), after.get(kernel)
        worse = pair[0] is not None and (pair[1] is None or pair[1] < pair[0])
        yield Change("served", kernel, pair[0], pair[1], worse=worse)


def _fraction(row: SubjectRow) -> float | None:
    return row.served / row.asked if row.asked else None  # nothing was asked, so nothing measured


def _timings(old: Timings, new: Timings, limit: float) -> Iterator[Change]:
    before, after = ({_named(row): row for row in run.rows} for run in (old, new))
    for key in dict.fromkeys((*before, *after)):
        for name in TIMES:
            pair = [_time(rows.get(key, {}), name) for rows in (before, after)]
            gone = pair[0] is not None and pair[1] is None
            if pair != [None, None]:
                worse = gone or _grew(pair[0], pair[1], limit=limit)
                yield Change("time", f"{key} {name}", pair[0], pair[1], worse=worse)


def _named(row: dict[str, str | float]) -> str:
    return " ".join(str(row[word]) for word in ("kernel", "shape", "pass") if word in row)


def _time(row: dict[str, str | float], name: str) -> float | None:
    found = row.get(name)
    return float(found) if isinstance(found, int | float) else None


def as_markdown(changes: Iterable[Change]) -> list[str]:
    """Lines of a GitHub table."""
    rows = [HEADS, ("---",) * len(HEADS), *(one.cells for one in changes)]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]


def _text(value: float | str | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.4g}"
