"""Bound and observed error along one axis: tokens, logit spread, offset of K and V.

For dQ: the largest error of a kernel against exact attention on its dequantised operands, the
enclosures' largest distance from it, and the closed form; all over the reference's root mean
square. For the row sum of dS after the cast: the largest sum, the ledger's largest bound and the
closed form, over the largest row sum of magnitudes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from dmverify.conformance.families import generate
from dmverify.spec.attention import interpret
from dmverify.spec.bounds import closed_form, measure, residual
from dmverify.spec.case import Case
from dmverify.spec.contracts import Contract, get_contract
from dmverify.spec.enclosure import enclosure
from dmverify.studies.bounds.sharpness import OnOperands, ledger_of, run
from dmverify.studies.plot import Panel, Plot, Series
from dmverify.studies.rounding import significant

ONE_HEAD = "heads=1,kv_heads=1"
AXES = MappingProxyType(
    {
        "tokens": ((64, 128, 256, 512), f"gaussian/spread-1,{ONE_HEAD},queries={{0}},keys={{0}}@0"),
        "spread": ((1, 2, 4, 8, 16), f"gaussian/spread-{{0}},{ONE_HEAD}@0"),
        "offset": ((1, 4, 16, 64), f"offset/kv-{{0}},{ONE_HEAD}@0"),
    }
)
LABELS = MappingProxyType(
    {
        "tokens": "tokens",
        "spread": "logit spread (factor of q)",
        "offset": "offset of K and V, in standard deviations",
    }
)
COLOURS = ("stale", "matched", "shifted")
CONTRACTS = ("article", "bundled", "bundled:ds_cast=zero-sum")


@dataclass(frozen=True)
class Point:
    """One quantity of one contract at one place of an axis."""

    axis: str
    x: float
    contract: str
    quantity: str
    observed: float | None
    enclosure: float | None
    closed: float | None


def points(axis: str, *, contracts: Sequence[str] = CONTRACTS, quick: bool = False) -> list[Point]:
    """Contracts and places along an axis; ``quick`` stops after two places."""
    places, text = AXES[axis]
    return [
        point
        for x in (places[:2] if quick else places)
        for name in contracts
        for point in _at(axis, x, get_contract(name), generate(text.format(x), contract=name))
    ]


def _at(axis: str, x: float, contract: Contract, case: Case) -> list[Point]:
    norms = measure(contract, case.problem, case.inputs)
    exact = interpret(contract, case.problem, case.inputs, OnOperands()).values["dq"]
    band = enclosure(contract, case.problem, case.inputs)["dq"]
    got = run(contract, case, internals=True)
    book = ledger_of(got, contract, case)
    size = float(np.sqrt(np.mean(exact**2)))
    error = np.abs(got.outputs.dq - exact).max()
    reach = np.maximum(band.hi - exact, exact - band.lo).max()
    form = closed_form("dq", contract, problem=case.problem, norms=norms)
    dq = [significant(float(v) / size) for v in (error, reach, form.value)]
    sums = np.abs(book.residual + book.values["cast"]).max()
    bound = np.sum([book.bounds[name] for name in book.names], axis=0).max()
    whole = residual(contract, problem=case.problem, norms=norms, cast=True).value
    row = [significant(float(v) / float(book.size.max())) for v in (sums, bound, whole)]
    return [
        Point(axis, x, contract.name, "dq", *dq),
        Point(axis, x, contract.name, "row sum", *row),
    ]


def picture(axis: str, found: list[Point]) -> Plot:
    """Observed: solid; enclosure or ledger: dashed; closed form: marks."""
    xs = sorted({point.x for point in found})
    contracts = list(dict.fromkeys(point.contract for point in found))
    panels = []
    for quantity, label in (
        ("dq", "largest error of dQ / its root mean square"),
        ("row sum", "largest |row sum of dS^| / largest sum of |dS|"),
    ):
        series = []
        for contract, colour in zip(contracts, COLOURS, strict=False):
            mine = {p.x: p for p in found if (p.contract, p.quantity) == (contract, quantity)}
            rows = [mine[x] for x in xs]
            series += [
                Series(contract, [p.observed for p in rows], colour),
                Series(f"{contract}: a posteriori", [p.enclosure for p in rows], colour, "bound"),
                Series(f"{contract}: closed form", [p.closed for p in rows], colour, "hollow"),
            ]
        panels.append(Panel(quantity, label, tuple(series)))
    return Plot(
        f"along-{axis}",
        "Bound and observed error. Solid: observed. Dashed: the enclosure of dQ, the ledger's "
        "bound of the row sum. Hollow: closed forms, which hold for any input with these norms.",
        LABELS[axis],
        [float(x) for x in xs],
        tuple(panels),
    )
