"""The table as data: ``dmverify lab power`` writes it, every test run compares.

    {"stated": {deviation: size}, "cases": {family: [id, ...]},
     "cells": {family: {deviation: {judge: [doublings, case, seen, tried] or reason}}}}

Checks that are about a kernel and not about a case have one family, ``ANY``, and its first case.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

from dmverify.conformance.checks import CHECKS
from dmverify.lab.power.cases import cases_of, power_families
from dmverify.lab.power.deviation import Deviation, NothingToPlantError
from dmverify.lab.power.measure import LEAST, Cell, Subjects, measure, rejects
from dmverify.lab.power.subject import JUDGES
from dmverify.lab.power.table import DEVIATIONS

Table: TypeAlias = dict[str, Any]

NAME = "power.json"
ANY = "any"


def columns() -> tuple[str, ...]:
    """Every family, and ``ANY``."""
    return (*power_families(), ANY)


def cases_in(family: str) -> tuple[str, ...]:
    """The cases of a family or of ``ANY``."""
    return cases_of("gaussian")[:1] if family == ANY else cases_of(family)


def planted_in(family: str) -> Iterator[Deviation]:
    """The errors that are planted in a family."""
    for one in DEVIATIONS.values():
        if CHECKS[one.check].once == (family == ANY):
            yield one


def make_table(
    families: Iterable[str] = (), *, progress: Callable[[str], None] = lambda _: None
) -> Table:
    """Measures every pair.

    Args:
        families: Some of ``columns``; all of them if none is named.
        progress: Called with each family before it is measured.

    Raises:
        HarnessError: If a check rejects a right answer, or breaks.
    """
    chosen = tuple(families) or columns()
    cells: Table = {}
    for family in chosen:
        progress(family)
        subjects = Subjects(cases_in(family))
        cells[family] = {
            one.id: {name: _packed(measure(one, name, subjects)) for name in JUDGES}
            for one in planted_in(family)
        }
    return {
        "stated": {one.id: one.stated for one in DEVIATIONS.values()},
        "cases": {family: list(cases_in(family)) for family in chosen},
        "cells": cells,
    }


def _packed(cell: Cell) -> list[int] | str:
    if cell.doublings is None:
        return cell.reason
    return [cell.doublings, cell.case, cell.seen, cell.tried]


@cache
def read_table() -> Table:
    """The table that ships."""
    found: Table = json.loads((files(__package__) / NAME).read_text())
    return found


def missing(table: Table) -> list[str]:
    """Pairs, sizes and cases that the table lacks or has otherwise: it is to be made anew."""
    said = [
        f"the stated size of {one.id}"
        for one in DEVIATIONS.values()
        if table["stated"].get(one.id) != one.stated
    ]
    for family in columns():
        if table["cases"].get(family) != list(cases_in(family)):
            said.append(f"the cases of {family}")
        due = {one.id: set(JUDGES) for one in planted_in(family)}
        found = {name: set(row) for name, row in table["cells"].get(family, {}).items()}
        said += [f"{name} in {family}" for name in due if found.get(name) != due[name]]
    return said


def lost(table: Table, family: str) -> list[str]:
    """Pairs of a family that were listed as rejecting and no longer do.

    A size that is listed is tried on its case, twice as large where it is not the stated one: an
    answer of another machine may lie elsewhere in its interval.
    """
    subjects = Subjects(table["cases"][family])
    said = []
    for name, row in table["cells"][family].items():
        for judged_by, cell in row.items():
            if isinstance(cell, str):
                continue
            power = min(cell[0] + 1, 0) if cell[0] <= 0 else cell[0] + 1
            subject = subjects.get(cell[1], DEVIATIONS[name].contract(judged_by))
            if not _still(DEVIATIONS[name], subject, power):
                where = f"{subject.case.id} ({judged_by})"
                said.append(f"{name}: 2^{power} times its size is not rejected on {where}")
    return said


def _still(deviation: Deviation, subject: Any, power: int) -> bool:
    try:
        return rejects(deviation, subject, power if deviation.doubles else 0)
    except NothingToPlantError:
        return False


__all__ = ["ANY", "LEAST", "Table", "columns", "lost", "make_table", "missing", "read_table"]
