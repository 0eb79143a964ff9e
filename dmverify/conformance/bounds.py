"""``bounds``: how far a conforming kernel may be, and what that consists of.

| output | terms |
|---|---|
| o, dq, dk, dv | order: summation order and codes it may flip; store: half a unit of BF16 |
| lse, delta | order alone |
| row sum of dS | the terms of the contract's ledger, and the cast |

A bound is a number per element; for people each term is shown by its median and its largest value
over the elements, in units of the output's root mean square. Where the bits are known the outputs'
bounds are zero. The ledger's bounds need the numbers inside, which a float32 interpretation (or the
bits) supplies. Not covered: elements that the contract leaves undetermined.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmverify.spec.arithmetic import Bits, Single
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention import interpret
from dmverify.spec.case import F64, Inputs, Outputs
from dmverify.spec.contracts import Contract
from dmverify.spec.enclosure import Band, enclosure
from dmverify.spec.enclosure.bands import half_unit
from dmverify.spec.ledger import ledger
from dmverify.spec.ledger.bounds import BOUNDS
from dmverify.spec.problem import Problem

STORED_IN_BF16 = ("o", "dq", "dk", "dv")


@dataclass(frozen=True)
class TermBound:
    """One term of one bound, over all elements or rows.

    Attributes:
        quantity: An output, or ``row sum``.
        term: Which rounding it comes from.
        median: Relative to the quantity's root mean square (row sum: to the row's sum of abs(dS)).
        largest: The same.
        cites: The statement it rests on.
    """

    quantity: str
    term: str
    median: float
    largest: float
    cites: str


def bounds(contract: Contract, problem: Problem, *, inputs: Inputs) -> tuple[TermBound, ...]:
    """Every bound of a contract on given inputs, term by term.

    Args:
        contract: The numerics.
        problem: Sizes, mask, scale.
        inputs: BF16 tensors (B, N, H, D).
    """
    arithmetic: Arithmetic = Bits() if contract.bit_exact else Single()
    with np.errstate(all="ignore"):
        run = interpret(contract, problem, inputs, arithmetic, internals=True)
    rows = list(_output_terms(contract, problem, inputs, run.outputs))
    if run.internals is None:
        return tuple(rows)
    book = ledger(contract, problem, inputs=inputs, internals=run.internals, outputs=run.outputs)
    live = book.size > 0
    for name in book.names:
        relative = book.bounds[name][live] / book.size[live]
        rows.append(_term("row sum", name, relative, BOUNDS[name].cites))
    return tuple(rows)


def _output_terms(
    contract: Contract, problem: Problem, inputs: Inputs, outputs: Outputs
) -> list[TermBound]:
    if contract.bit_exact:
        names = [name for name, _ in outputs.items()]
        return [TermBound(name, "bits", 0.0, 0.0, "every order is stated") for name in names]
    bands = enclosure(contract, problem, inputs)
    return [row for name, band in bands.items() for row in _band_terms(name, band)]


def _band_terms(name: str, band: Band) -> list[TermBound]:
    known = ~band.may_nan & np.isfinite(band.mid)
    mid, reach = band.mid[known], np.maximum(band.below, band.above)[known]
    size = float(np.sqrt(np.mean(mid**2))) if mid.size else 0.0
    unit = size if size > 0 else 1.0
    if name not in STORED_IN_BF16:
        return [_term(name, "order", reach / unit, "intervals over every order of summation")]
    store = half_unit(np.abs(mid))
    order = np.maximum(reach - store, 0.0)
    return [
        _term(name, "order", order / unit, "intervals over every order, codes as sets"),
        _term(name, "store", store / unit, "half a unit in the last place of BF16"),
    ]


def _term(quantity: str, term: str, relative: F64, cites: str) -> TermBound:
    if not relative.size:
        return TermBound(quantity, term, 0.0, 0.0, cites)
    return TermBound(quantity, term, float(np.median(relative)), float(relative.max()), cites)
