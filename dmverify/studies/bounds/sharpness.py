"""How sharp the enclosures are: bound over worst observed error, by family.

For each case a conforming kernel runs, and exact attention on the contract's dequantised operands
(in float64) is the reference. Of each output, two figures:

    worst     the largest distance that its band allows from the reference, over all elements, over
              the largest distance that the kernel reached anywhere
    closest   the least ratio of an element's allowed distance and what was reached there

For the row sum of dS after the zero-sum cast, the same of the ledger's bound and the sum, over the
rows. Medians over the cases of a family, then over the families. Where nothing was reached (0
where 0 is due) there is no figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmverify.conformance.families import generate, list_cases
from dmverify.spec.arithmetic import Bits, Double, Single
from dmverify.spec.attention import Interpretation, interpret
from dmverify.spec.case import F64, Case
from dmverify.spec.contracts import Contract, get_contract
from dmverify.spec.enclosure import enclosure
from dmverify.spec.ledger import Ledger, ledger

FAMILIES = (
    "constant-v",
    "positive-v",
    "offset",
    "rows",
    "logit-size",
    "zero-blocks",
    "distinct-scales",
    "tagged",
    "rounding",
    "outliers",
)
"""The families A1 to A10, in order."""
OUTPUTS = ("o", "dq", "dk", "dv")
RESIDUAL = "row sum, zero-sum cast"
FORMS = (("article", "channels"), ("bundled", "channels"), ("bundled", "free"))
LARGEST = 200  # tokens of a case


class OnOperands(Double):
    """float64 attention on the dequantised operands."""

    name = "double on operands"

    def __init__(self) -> None:
        super().__init__()
        self.casts = frozenset({"operands"})


@dataclass(frozen=True)
class Sharpness:
    """bound / worst observed error of one case.

    Attributes:
        family: Family of the case.
        contract: Its name.
        order: ``channels`` or ``free``.
        quantity: An output, or the row sum.
        worst: At least 1 if the bound holds; infinite where it is open.
        closest: The same.
    """

    family: str
    contract: str
    order: str
    quantity: str
    worst: float
    closest: float


def measure_family(family: str, *, variants: int, seed: int = 0) -> Iterator[Sharpness]:
    """Every form on the first ``variants`` variants of a family."""
    cases = [generate(text) for text in list_cases(family, seed=seed)]
    small = [case for case in cases if max(case.problem.queries, case.problem.keys) <= LARGEST]
    step = max(len(small) // variants, 1)
    for case in (small or cases)[::step][:variants]:
        for base, order in FORMS:
            yield from _outputs(family, case, get_contract(base), order)
        for base in ("article", "bundled"):
            yield from _row_sums(family, case, get_contract(base, ds_cast="zero-sum"))


def _outputs(family: str, case: Case, contract: Contract, order: str) -> Iterator[Sharpness]:
    bands = enclosure(contract, case.problem, case.inputs, order=order)
    exact = interpret(contract, case.problem, case.inputs, OnOperands()).values
    found = run(contract, case).outputs
    for name in OUTPUTS:
        reach = np.maximum(bands[name].hi - exact[name], exact[name] - bands[name].lo)
        error = np.abs(getattr(found, name) - exact[name])
        figures = ratios(reach, error)
        if figures is not None:
            yield Sharpness(family, contract.base, order, name, *figures)


def run(contract: Contract, case: Case, *, internals: bool = False) -> Interpretation:
    """A conforming kernel: the bits where they exist, float32 otherwise."""
    arithmetic = Bits() if contract.bit_exact else Single()
    with np.errstate(all="ignore"):
        return interpret(contract, case.problem, case.inputs, arithmetic, internals=internals)


def ledger_of(got: Interpretation, contract: Contract, case: Case) -> Ledger:
    """The ledger of a run that kept its internals."""
    assert got.internals is not None
    with np.errstate(all="ignore"):
        return ledger(
            contract,
            case.problem,
            inputs=case.inputs,
            internals=got.internals,
            outputs=got.outputs,
        )


def ratios(bound: F64, error: F64) -> tuple[float, float] | None:
    """(worst, closest); None if there was no error."""
    seen = np.isfinite(error)
    bound, error = bound[seen], error[seen]
    top = error.max(initial=0.0)
    if top == 0:
        return None
    some = error > 0
    with np.errstate(over="ignore"):  # an error of a subnormal, a bound of a normal number
        return float(bound.max() / top), float((bound[some] / error[some]).min())


def _row_sums(family: str, case: Case, contract: Contract) -> Iterator[Sharpness]:
    book = ledger_of(run(contract, case, internals=True), contract, case)
    sums = np.abs(book.residual + book.values["cast"])[book.defined]
    bound = np.sum([book.bounds[name] for name in book.names], axis=0)[book.defined]
    figures = ratios(bound, sums)
    if figures is not None:
        yield Sharpness(family, contract.base, "channels", RESIDUAL, *figures)


def medians(rows: list[Sharpness]) -> list[dict[str, Any]]:
    """Per form and quantity: the medians over families of each family's medians."""
    keys = sorted({(r.contract, r.order, r.quantity) for r in rows})
    return [
        {
            "contract": key[0],
            "order": key[1],
            "quantity": key[2],
            **{figure: _median_of_families(rows, key, figure) for figure in ("worst", "closest")},
        }
        for key in keys
    ]


def _median_of_families(rows: list[Sharpness], key: tuple[str, str, str], figure: str) -> float:
    mine = [r for r in rows if (r.contract, r.order, r.quantity) == key]
    families = [[getattr(r, figure) for r in mine if r.family == f] for f in FAMILIES]
    return float(np.median([np.median(values) for values in families if values]))
