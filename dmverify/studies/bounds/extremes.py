"""Extremes: on the inputs that test premises, no bound is passed and nothing stops.

    dmverify lab extremes --cases 20000 --workers 2 --out extremes.json
    dmverify lab extremes --cases 20000 --shard 0/4 --out part0.json
    dmverify lab extremes --merge part0.json --merge part1.json ... --out whole.json

Each case (``extreme_cases``) is run by a conforming kernel of its contract, the specification's
bits where they are stated, float32 otherwise. Asked are the ledger of every row, every closed form
and the sums of dK over the keys. A violation is

    a term of the ledger outside its own bound, or a row sum or a column outside the sum of them
    an output outside its closed form around exact attention on its reference
    a bound that is not a number

and a crash an exception. Where a premise does not hold the bound is infinite and must name it: an
infinite term without a reason is a violation too. The reference of the closed forms is attention
in float64, and in balls of 1,024 bits where an output is outside by that. A share of the cases is
also shown as a report is.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dmverify.conformance.bounds import bounds
from dmverify.shards import WHOLE, Shard, part_of, require_every_shard
from dmverify.spec.arithmetic import Double, Exact
from dmverify.spec.arithmetic.interface import Arithmetic
from dmverify.spec.attention import Interpretation, interpret
from dmverify.spec.bounds import (
    OUTPUTS,
    REFERENCES,
    ClosedForm,
    closed_form,
    measure,
    residual,
)
from dmverify.spec.bounds.column_ledger import LINES, columns
from dmverify.spec.bounds.columns import column_bound
from dmverify.spec.case import Case
from dmverify.spec.contracts import Contract
from dmverify.spec.ledger import Ledger
from dmverify.spec.margin import margin_of
from dmverify.studies.bounds.extreme_cases import extreme_case
from dmverify.studies.bounds.parallel import parallel
from dmverify.studies.bounds.sharpness import ledger_of, run

REPORTED = 50  # every so many cases the whole report is made, enclosures and all
BITS = 1024
CASTS = {"operands": frozenset({"operands"}), "inputs": frozenset()}


@dataclass
class Tally:
    """What a run has seen; everything adds up over shards."""

    cases: int = 0
    rows: int = 0
    bounds: Counter[str] = field(default_factory=Counter)
    infinite: Counter[str] = field(default_factory=Counter)
    violations: list[dict[str, Any]] = field(default_factory=list)
    crashes: list[dict[str, Any]] = field(default_factory=list)
    cpu_seconds: float = 0.0

    def add(self, other: Tally) -> None:
        """Counts what another run has seen."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_json(self) -> dict[str, Any]:
        """Plain data for the record."""
        counted = {"bounds": dict(sorted(self.bounds.items()))}
        counted["infinite"] = dict(self.infinite.most_common())
        return vars(self) | counted | {"cpu_seconds": round(self.cpu_seconds)}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Tally:
        """Reads the data of a record."""
        kept = {name: record[name] for name in vars(cls())}
        return cls(
            **kept | {"bounds": Counter(kept["bounds"]), "infinite": Counter(kept["infinite"])}
        )


def check(number: int, seed: int, tally: Tally) -> None:
    """One case: its ledger, its closed forms, and now and then its report."""
    case, contract = extreme_case(number, seed=seed)
    tally.cases += 1
    try:
        with np.errstate(all="ignore"):
            found = list(_violations(case, contract, number, tally))
    except Exception as error:
        tally.crashes.append(_named(case, contract, repr(error)))
        return
    tally.violations += [_named(case, contract, what) for what in found]


def _named(case: Case, contract: Contract, what: str) -> dict[str, Any]:
    return {"case": case.id, "contract": contract.name, "what": what}


def _violations(case: Case, contract: Contract, number: int, tally: Tally) -> Iterator[str]:
    got = run(contract, case, internals=True)
    book = ledger_of(got, contract, case)
    yield from _ledger(book, tally)
    yield from _closed(case, contract, got, book, tally)
    yield from _columns(case, contract, got, book, tally)
    if number % REPORTED == 0:
        report = bounds(contract, case.problem, inputs=case.inputs)
        yield from (f"{r.quantity} {r.term} is NaN" for r in report if np.isnan(r.largest))
        tally.bounds["report"] += 1


def _ledger(book: Ledger, tally: Tally) -> Iterator[str]:
    tally.rows += int(book.defined.sum())
    tally.bounds["ledger"] += 1
    if not book.closes.all():
        yield "the ledger does not close"
    for name in book.names:
        yield from _outside(f"term {name}", book.values[name], book.bounds[name])
        unbounded = book.defined & np.isinf(book.bounds[name])
        for reason in book.reasons(name)[unbounded]:
            tally.infinite[reason] += 1
            if not reason:
                yield f"term {name} is unbounded without a reason"
    before = sum(book.bounds[name] for name in book.terms)
    yield from _outside("row sum", book.residual, before)
    after = book.residual + book.values["cast"]
    yield from _outside("row sum, cast", after, before + book.bounds["cast"])


def _closed(
    case: Case, contract: Contract, got: Interpretation, book: Ledger, tally: Tally
) -> Iterator[str]:
    norms = measure(contract, case.problem, case.inputs)
    for reference in REFERENCES:
        forms = {
            name: closed_form(
                name, contract, problem=case.problem, norms=norms, reference=reference
            )
            for name in OUTPUTS
        }
        tally.bounds["closed form"] += len(forms)
        tally.infinite.update(form.reason for form in forms.values() if np.isinf(form.value))
        outside = list(_outputs(case, contract, got, forms, _Reference(reference)))
        if outside:
            exact = Exact(CASTS[reference], precision=BITS)
            outside = list(_outputs(case, contract, got, forms, exact))
        yield from outside
    sums = {False: book.residual, True: book.residual + book.values["cast"]}
    for cast, found in sums.items():
        form = residual(contract, problem=case.problem, norms=norms, cast=cast)
        tally.bounds["closed form"] += 1
        yield from _outside(f"closed {form.output}", found, np.full(found.shape, form.value))


def _outputs(
    case: Case,
    contract: Contract,
    got: Interpretation,
    forms: dict[str, ClosedForm],
    arithmetic: Arithmetic,
) -> Iterator[str]:
    """Outputs that are farther from exact attention than their closed forms allow."""
    matched = replace(contract, delta="matched")
    exact = interpret(matched, case.problem, case.inputs, arithmetic).values
    for name, form in forms.items():
        error = np.abs(getattr(got.outputs, name) - exact[name])
        error = error[np.isfinite(getattr(got.outputs, name)) & ~np.isnan(error)]
        what = f"{name} on {form.reference}"
        yield from _outside(what, error, np.full(error.shape, form.value))


def _columns(
    case: Case, contract: Contract, got: Interpretation, book: Ledger, tally: Tally
) -> Iterator[str]:
    """Sums of dK over the keys, from outputs alone and line by line."""
    dk = got.outputs.dk.astype(np.float64)
    limit = column_bound(contract, case.problem, case.inputs).with_store(dk)
    finite = np.isfinite(dk).all(axis=1)
    yield from _outside("sum of dk", dk.sum(axis=1)[finite], limit[finite])
    assert got.internals is not None
    lines = columns(
        case.problem, inputs=case.inputs, internals=got.internals, outputs=got.outputs, book=book
    )
    tally.bounds["columns"] += 1 + len(LINES)
    for name in LINES:
        yield from _outside(f"columns, {name}", lines.values[name], lines.bounds[name])


class _Reference(Double):
    """float64 attention on the dequantised operands, or on the inputs."""

    def __init__(self, reference: str) -> None:
        super().__init__()
        self.casts = CASTS[reference]


def _outside(what: str, values: Any, limits: Any) -> Iterator[str]:
    known = ~np.isnan(limits)
    if not known.all():
        yield f"{what}: its bound is NaN"
    margins = margin_of(values, limits)[known]
    if (margins > 1).any():
        outside, largest = int((margins > 1).sum()), float(margins.max())
        yield f"{what}: {outside} outside, at most {largest:.3g} times the bound"


def sweep(cases: int, *, seed: int = 0, shard: Shard = WHOLE) -> Tally:
    """Every case of a shard."""
    tally, start = Tally(), time.process_time()
    for number in range(shard[0], cases, shard[1]):
        check(number, seed, tally)
    tally.cpu_seconds = time.process_time() - start
    return tally


def search(cases: int, *, seed: int, workers: int, shard: Shard = WHOLE) -> dict[str, Any]:
    """The record of a shard.

    Args:
        cases: Cases of the whole search.
        seed: Seed of the whole search.
        workers: Processes that share the shard's cases.
        shard: Which of the cases.
    """
    plan, whole = {"cases": cases, "seed": seed}, Tally()
    for tally in parallel(workers, _sweep, plan, shard):
        whole.add(tally)
    return {"plan": plan, "shard": list(shard), **whole.to_json()}


def merge(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One record of all shards of one search.

    Raises:
        InputError: If they are of different plans, or not all of its shards.
    """
    require_every_shard(records, [record["plan"] for record in records])
    whole = Tally()
    for record in records:
        whole.add(Tally.from_json(record))
    return {"plan": records[0]["plan"], "shard": list(WHOLE), **whole.to_json()}


def _sweep(part: Shard, plan: dict[str, int], shard: Shard) -> Tally:
    """Part i of n of a shard."""
    return sweep(plan["cases"], seed=plan["seed"], shard=part_of(shard, part))
