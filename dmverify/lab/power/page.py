"""The table as a page: what is planted, how it fares, every family, and why some say nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dmverify.conformance.checks import CHECKS
from dmverify.lab.power.measure import LEAST
from dmverify.lab.power.record import ANY, Table
from dmverify.lab.power.subject import JUDGES
from dmverify.lab.power.table import DEVIATIONS

Line = list[str]

_HEAD = """# What every check notices

`dmverify lab power` wrote this page; `dmverify faults --power` and the tests
compute it anew. An error of a stated size s is planted in the answer of a correct kernel, on small
cases of every family. Sizes in the tables are multiples of s: the smallest that is rejected, by
halving where s itself is, else by doubling. `(1/3)`: s is rejected on one of three cases that have
a place for the error. A letter stands where nothing is rejected; reasons follow the tables. Where
dS, delta, dQ or dK is what rounding leaves of sums that cancel, an error is a part of those sums.

Judges: `article` is the simulation, judged by intervals of every order; `bundled` the emulator,
judged by intervals too, as if its bits were not known (`bits` alone compares them).
"""

_GROUPS = (
    ("Outputs by their intervals", ("o", "dq", "dk", "dv", "lse", "delta")),
    ("Row sums and the terms of the ledger", ("row-sum", "row-sum-cast", "ledger", "columns")),
)


def page(table: Table) -> str:
    """The whole page, in Markdown."""
    reasons = _letters(table)
    parts = [_HEAD, _lines(summary(table))]
    for judged_by in JUDGES:
        for title, names in _grouped():
            rows = [["family", *names]]
            for family in table["cells"]:
                if family != ANY:
                    cells = (table["cells"][family][name][judged_by] for name in names)
                    rows.append([family, *(_shown(cell, reasons) for cell in cells)])
            parts += [f"## {title} ({judged_by})\n", _lines(rows)]
    parts += [
        "## Why nothing is rejected\n",
        _lines(_why(reasons)),
        "## Cases\n",
        _lines(_cases(table)),
    ]
    return "\n".join(parts)


def summary(table: Table) -> list[Line]:
    """A line for every error: what it is, and in how many families its check rejects it."""
    rows = [["error", "planted", "s", *(f"{name}: at s, larger, never" for name in JUDGES)]]
    for one in DEVIATIONS.values():
        counts = []
        for judged_by in JUDGES:
            found = Counter(
                _kind(row[one.id][judged_by]) for row in table["cells"].values() if one.id in row
            )
            counts.append(", ".join(str(found[kind]) for kind in ("stated", "larger", "never")))
        rows.append([one.id, one.what, f"{one.stated:g}", *counts])
    return rows


def totals(table: Table) -> Counter[str]:
    """How many pairs reject the stated size, a larger one, none."""
    return Counter(
        _kind(cell)
        for rows in table["cells"].values()
        for row in rows.values()
        for cell in row.values()
    )


def _kind(cell: list[int] | str) -> str:
    if isinstance(cell, str):
        return "never"
    return "larger" if cell[0] > 0 else "stated"


def _grouped() -> Iterator[tuple[str, list[str]]]:
    """Titles and the errors of each table; those about a kernel are in the summary alone."""
    named = {check for _, checks in _GROUPS for check in checks}
    for title, checks in _GROUPS:
        yield title, [one.id for one in DEVIATIONS.values() if one.check in checks]
    asked = [one for one in DEVIATIONS.values() if CHECKS[one.check].needs == "kernel"]
    others = [one for one in DEVIATIONS.values() if one.check not in named and one not in asked]
    yield "Form, special values, identities", [one.id for one in others]
    yield (
        "Second questions and conduct",
        [one.id for one in asked if not CHECKS[one.check].once],
    )


def _shown(cell: list[int] | str, reasons: dict[str, str]) -> str:
    if isinstance(cell, str):
        return reasons[cell]
    doublings, _, seen, tried = cell
    size = str(2**doublings) if doublings >= 0 else f"1/{2**-doublings}"
    most = "≤ " if doublings == LEAST else ""
    return f"{most}{size}" + (f" ({seen}/{tried})" if seen < tried else "")


def _letters(table: Table) -> dict[str, str]:
    """A letter for every reason, the most frequent first."""
    found = Counter(
        cell
        for rows in table["cells"].values()
        for row in rows.values()
        for cell in row.values()
        if isinstance(cell, str)
    )
    order = sorted(found, key=lambda reason: (-found[reason], reason))
    return {reason: _letter(i) for i, reason in enumerate(order)}


def _letter(i: int) -> str:
    first, second = divmod(i, 26)
    return (chr(96 + first) if first else "") + chr(97 + second)


def _why(reasons: dict[str, str]) -> list[Line]:
    return [["letter", "reason"], *([letter, reason] for reason, letter in reasons.items())]


def _cases(table: Table) -> list[Line]:
    rows = [["family", "cases"]]
    for family, cases in table["cases"].items():
        rows.append([family, "<br>".join(f"`{case}`" for case in cases)])
    return rows


def _lines(rows: list[Line]) -> str:
    header, *body = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([header, "|---" * len(rows[0]) + "|", *body]) + "\n"
