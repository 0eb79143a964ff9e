"""``bounds``: how far a conforming kernel may be, and what that consists of.

| strength | of | terms |
|---|---|---|
| closed form | outputs, the row sum of dS before and after the cast | see ``spec.bounds`` |
| channels, free | outputs | order: what the enclosure leaves open; store: half a unit of it |
| bits | outputs of a contract that states every order | none: equality |
| ledger | the row sum of dS | the terms of the contract's ledger, and the cast |

An enclosure is a number per element, a ledger's bound one per row; each term is shown by its median
and its largest value, in units of the output's root mean square or of each row's sum of abs(dS). A
closed form is one number for all; it is shown in units of the same root mean square, or of the
largest sum of abs(dS). A bound that says nothing, since a premise of its lemmas fails, is infinite
and keeps the premise. Closed forms and ledgers are there for the contracts that they are derived
for, of a forward alone those of O and LSE; of others a row says which fields are in the way, and
why. The numbers inside, which units and ledger need, come from a float32 interpretation or from the
bits. Not covered: elements that the contract leaves undetermined.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dmverify.conformance.report.notebook import table_html
from dmverify.conformance.report.rows import number_text
from dmverify.spec.arithmetic import Bits, Single
from dmverify.spec.arithmetic.enclosure import ORDERS
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention import interpret
from dmverify.spec.attention.stores import Store, store_of
from dmverify.spec.bounds import OUTPUTS, ClosedForm, closed_form, measure, residual
from dmverify.spec.case import F32, F64, Inputs, Outputs
from dmverify.spec.contracts import Contract
from dmverify.spec.enclosure import Band, enclosure
from dmverify.spec.enclosure.bands import half_unit
from dmverify.spec.formats import BF16, FP32
from dmverify.spec.ledger import Ledger, ledger
from dmverify.spec.ledger.bounds import BOUNDS
from dmverify.spec.ledger.bounds.derived import is_derived, obstacles
from dmverify.spec.problem import Problem

SUMS = ("sum-any-tree", "sum-fma-chain", "rn-error")
ORDER_LEMMAS = {
    "dequantised": ("cast-set", *SUMS),
    "codes": ("cast-set", "wgmma-order-free", *SUMS),
}


@dataclass(frozen=True)
class TermBound:
    """One term of one bound, over all elements or rows.

    Attributes:
        quantity: An output, ``row sum``, or ``row sum, cast``.
        strength: closed form, channels, free, bits or ledger.
        term: Which rounding it comes from.
        median: In the units above.
        largest: The same.
        cites: The statement it rests on.
        lemmas: Ids of lemmas and certificates that it composes.
        unbounded: Why it says nothing, in the first row where it is infinite; else empty.
        unbounded_share: Share of the rows that it says nothing of.
    """

    quantity: str
    strength: str
    term: str
    median: float
    largest: float
    cites: str
    lemmas: tuple[str, ...]
    unbounded: str = ""
    unbounded_share: float = 0.0


@dataclass(frozen=True)
class BoundsReport:
    """Every bound of a contract on given inputs; iterates over its rows.

    Attributes:
        contract: The numerics.
        problem: Sizes, mask, scale.
        rows: Term by term, the weakest strength first.
    """

    contract: Contract
    problem: Problem
    rows: tuple[TermBound, ...]

    def __iter__(self) -> Iterator[TermBound]:
        return iter(self.rows)

    def _repr_html_(self) -> str:
        """What a notebook shows: every row."""
        rows = (
            (
                one.quantity,
                one.strength,
                one.term,
                number_text(one.median),
                number_text(one.largest),
                one.unbounded or one.cites,
            )
            for one in self
        )
        heads = ("quantity", "strength", "term", "median", "largest", "rests on")
        return table_html(heads, rows, title=f"{self.contract.name}: {self.problem}")

    def total(self, quantity: str, strength: str) -> float:
        """The sum of the largest finite values of a bound's terms; at least a finite bound."""
        chosen = [r.largest for r in self.rows if (r.quantity, r.strength) == (quantity, strength)]
        return float(np.sum([size for size in chosen if np.isfinite(size)]))


def bounds(contract: Contract, problem: Problem, *, inputs: Inputs) -> BoundsReport:
    """Every bound of a contract on given inputs, term by term.

    Args:
        contract: The numerics.
        problem: Sizes, mask, scale.
        inputs: BF16 tensors (B, N, H, D).
    """
    arithmetic: Arithmetic = Bits() if contract.bit_exact else Single()
    with np.errstate(all="ignore"):
        run = interpret(contract, problem, inputs, arithmetic, internals=True)
    book = None
    if run.internals is not None and is_derived(contract):
        book = ledger(
            contract, problem, inputs=inputs, internals=run.internals, outputs=run.outputs
        )
    rows = _closed(contract, problem, inputs, run.outputs, book)
    rows += _enclosed(contract, problem, inputs, run.outputs)
    rows += _not_derived(contract) if book is None else _ledger_terms(book)
    return BoundsReport(contract, problem, tuple(rows))


def _closed(
    contract: Contract, problem: Problem, inputs: Inputs, outputs: Outputs, book: Ledger | None
) -> list[TermBound]:
    why = {name: _no_closed_form(contract, inputs, name) for name in OUTPUTS}
    if all(why.values()):
        return [_unknown("every output", "closed form", why["o"])]
    norms = measure(contract, problem, inputs)
    rows = []
    for name in OUTPUTS:
        size = _root_mean_square(getattr(outputs, name))
        if size > 0 and not why[name]:
            form = closed_form(name, contract, problem=problem, norms=norms)
            rows += _form_terms(name, form, size)
    largest = 0.0 if book is None else float(book.size.max(initial=0.0))
    if largest > 0:
        for cast in (False, True):
            form = residual(contract, problem=problem, norms=norms, cast=cast)
            rows += _form_terms(form.output, form, largest)
    return rows


def _not_derived(contract: Contract) -> list[TermBound]:
    """The row in the place of a ledger, if it is the contract that has none."""
    found = ", ".join(obstacles(contract))
    return [_unknown("row sum", "ledger", f"not derived for {found}")] if found else []


def _no_closed_form(contract: Contract, inputs: Inputs, output: str) -> str:
    """Why an output has none, in words; empty if it has one."""
    if found := obstacles(contract, output=output):
        return f"not derived for {', '.join(found)}"
    infinite = [name for name, array in inputs.items() if not np.isfinite(array).all()]
    return f"{infinite[0]} is not finite" if infinite else ""


def _unknown(quantity: str, strength: str, why: str) -> TermBound:
    nothing = float("inf")
    return TermBound(quantity, strength, "all", nothing, nothing, "", (), why, 1.0)


def _form_terms(name: str, form: ClosedForm, size: float) -> list[TermBound]:
    rows = []
    for term in form.terms:
        relative, cites = term.value / size, ", ".join(term.lemmas)
        row = TermBound(
            name,
            "closed form",
            term.name,
            relative,
            relative,
            cites,
            term.lemmas,
            unbounded=term.reason,
            unbounded_share=float(bool(term.reason)),
        )
        rows.append(row)
    return rows


def _enclosed(
    contract: Contract, problem: Problem, inputs: Inputs, outputs: Outputs
) -> list[TermBound]:
    orders = ORDERS if contract.schedule.operands == "codes" else ORDERS[:1]
    lemmas = ORDER_LEMMAS.get(contract.schedule.operands, SUMS)
    rows = [
        row
        for order in reversed(orders)
        for name, band in enclosure(contract, problem, inputs, order=order).items()
        for row in _band_terms(name, order, band, lemmas, store_of(contract, name))
    ]
    if contract.bit_exact:
        names = [name for name, _ in outputs.items()]
        stated = Basis("every order is stated", ())
        rows += [_term(n, "bits", "bits", np.zeros(1), stated) for n in names]
    return rows


def _band_terms(
    name: str, order: str, band: Band, lemmas: tuple[str, ...], store: Store
) -> list[TermBound]:
    known = ~band.may_nan & np.isfinite(band.mid)
    mid, reach = band.mid[known], np.maximum(band.below, band.above)[known]
    size = _root_mean_square(mid)
    unit = size if size > 0 else 1.0
    if store.fmt is FP32 or store.by_caller:
        basis = Basis("intervals over every order of summation", lemmas)
        return [_term(name, order, "order", reach / unit, basis)]
    half = half_unit(np.abs(mid), store.fmt)
    left = np.maximum(reach - half, 0.0)
    stores = ("bf16-store", "bf16-store-tiny") if store.fmt is BF16 else ()
    last_place = f"half a unit in the last place of {store.fmt.name}"
    orders = Basis("intervals over every order, codes as sets", lemmas)
    return [
        _term(name, order, "order", left / unit, orders),
        _term(name, order, "store", half / unit, Basis(last_place, stores)),
    ]


def _ledger_terms(book: Ledger) -> list[TermBound]:
    live = book.size > 0
    rows = []
    for name in book.names:
        relative, bound = book.bounds[name][live] / book.size[live], BOUNDS[name]
        basis = Basis(bound.cites, bound.lemmas_for(book.contract))
        row = _term("row sum", "ledger", name, relative, basis)
        why = [reason for reason in book.reasons(name)[live] if reason]
        share = len(why) / max(int(live.sum()), 1)
        rows.append(replace(row, unbounded=why[0] if why else "", unbounded_share=share))
    return rows


class Basis(NamedTuple):
    """What a bound rests on: a rule in words, and ids of lemmas."""

    cites: str
    lemmas: tuple[str, ...]


def _term(quantity: str, strength: str, term: str, relative: F64, basis: Basis) -> TermBound:
    sizes = (float(np.median(relative)), float(relative.max())) if relative.size else (0.0, 0.0)
    return TermBound(quantity, strength, term, *sizes, *basis)


def _root_mean_square(x: F64 | F32 | None) -> float:
    if x is None:
        return 0.0
    seen = np.asarray(x, np.float64)[np.isfinite(x)]
    return float(np.sqrt(np.mean(seen**2))) if seen.size else 0.0
