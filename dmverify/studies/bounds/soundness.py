"""Soundness: kernels that conform are never outside the enclosures.

    dmverify lab soundness --per 100 --workers 16 --out soundness.json
    dmverify lab soundness --families one-channel --per 243 --out small.json
    dmverify lab soundness --per 100 --shard 0/4 --out part0.json
    dmverify lab soundness --merge part0.json --merge part1.json ... --out whole.json

Every family and delta mode gets ``per`` distinct cases: variants and seeds in turn, casts,
contracts and orders in turn, small shapes; a shard i/n takes every n-th of them. Each case is run
by the conforming kernels of its contract (``kernels``), and by the torch simulation where that
serves it. A violation is an output element outside its band, or NaN where none may be.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any, TypeAlias

import numpy as np

from dmverify.conformance.adapter import Supported
from dmverify.conformance.checks.margins import compare
from dmverify.conformance.families import generate, list_cases, list_families
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.errors import InputError
from dmverify.shards import WHOLE, Shard, part_of, require_every_shard
from dmverify.spec.attention import interpret
from dmverify.spec.case import Case, Inputs, Outputs
from dmverify.spec.contracts import DELTAS, DS_CASTS, Contract, get_contract
from dmverify.spec.enclosure import Band, enclosure
from dmverify.spec.problem import Problem
from dmverify.studies.bounds.kernels import conforming
from dmverify.studies.bounds.parallel import parallel

SIZES = ((33, 40), (64, 64), (17, 70), (65, 65), (5, 129), (70, 3), (127, 127))
FORMS = (
    ("article", "channels"),
    ("bundled", "channels"),
    ("upstream", "channels"),
    ("bundled", "free"),
)
ENUMERATED = "one-channel"
VALUES = (-1.5, 0.34375, 3.0)
OWN_SIZES = ("lengths", "capture", "integers")  # their sizes are their point


@dataclass
class Tally:
    """What a run has seen."""

    cases: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    elements: int = 0
    open: int = 0
    violations: list[dict[str, Any]] = field(default_factory=list)
    cpu_seconds: float = 0.0

    def add(self, other: Tally) -> None:
        """Counts what another run has seen."""
        self.cases += other.cases
        self.runs += other.runs
        self.elements += other.elements
        self.open += other.open
        self.violations += other.violations
        self.cpu_seconds += other.cpu_seconds

    def to_json(self) -> dict[str, Any]:
        """Plain data for the record."""
        return {
            "cases": sum(self.cases.values()),
            "kernel_runs": dict(self.runs),
            "elements": self.elements,
            "open": self.open,
            "least_per_family_and_mode": min(self.cases.values(), default=0),
            "per_family_and_mode": dict(sorted(self.cases.items())),
            "violations": self.violations,
            "cpu_seconds": round(self.cpu_seconds),
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Tally:
        """Reads the data of a record."""
        return cls(
            cases=Counter(record["per_family_and_mode"]),
            runs=Counter(record["kernel_runs"]),
            **{n: record[n] for n in ("elements", "open", "violations", "cpu_seconds")},
        )


Planned: TypeAlias = tuple[Case, Contract, str]
PLAN = ("families", "per", "seed")  # what a record says it was asked


def swept_families() -> tuple[str, ...]:
    """Names of the families that are swept: those that have cases of a size for it."""
    return (*(family.name for family in list_families(on_demand=False)), "capture")


def plan(
    family: str, mode: str, per: int, *, seed: int = 0, shard: Shard = WHOLE
) -> Iterator[Planned]:
    """A shard of ``per`` distinct cases of a family in one delta mode, with contract and order."""
    first, step = shard
    if family == ENUMERATED:
        yield from islice(_enumerated(mode), first, per, step)
        return
    endless = (
        (text, (contract, order, cast))
        for round_ in range(10**6)
        for text in list_cases(family, seed=seed + round_)
        for contract, order, cast in [_form(round_, text)]
    )
    for number, (text, (base, order, cast)) in islice(enumerate(endless), first, per, step):
        contract = _contract(base, mode, cast)
        yield _case(text, family, number, contract), contract, order


def _contract(base: str, mode: str, cast: str) -> Contract:
    changes = {"delta": mode, "ds_cast": cast}
    return get_contract(
        base, **changes, **({"normaliser": "codes"} if mode == "associated" else {})
    )


def _enumerated(mode: str) -> Iterator[Planned]:
    """One query, two keys, one channel: every choice of three values for every number."""
    problem = Problem(1, 1, 1, 1, 2, 32, causal=False)
    forms = list(product(FORMS, DS_CASTS))
    for number, (q, k0, k1, v, do) in enumerate(product(VALUES, repeat=5)):
        (base, order), cast = forms[number % len(forms)]
        contract = _contract(base, mode, cast)
        case = one_channel(problem, q=q, k=(k0, k1), v=(1.0, v), do=do)
        yield replace(case, contract=contract.name), contract, order


def _form(round_: int, text: str) -> tuple[str, str, str]:
    forms = list(product(FORMS, DS_CASTS))
    (base, order), cast = forms[(round_ + sum(map(ord, text))) % len(forms)]
    return base, order, cast


def _case(text: str, family: str, number: int, contract: Contract) -> Case:
    if family in OWN_SIZES:
        return generate(text, contract=contract.name)
    name, _, seed = text.partition("@")
    queries, keys = SIZES[number % len(SIZES)]
    small = f"{name},queries={queries},keys={keys},head_dim=32@{seed}"
    try:
        return generate(small, contract=contract.name)
    except InputError:  # the family needs its own size
        return generate(text, contract=contract.name)


def one_channel(
    problem: Problem, *, q: float, k: tuple[float, ...], v: tuple[float, ...], do: float
) -> Case:
    """A call whose tensors are 0 but in one channel: one query, len(k) keys."""
    shapes = problem.shapes()
    tensors = {name: np.zeros(shapes[name], np.float32) for name in ("q", "k", "v", "do")}
    for name, values in (("q", (q,)), ("k", k), ("v", v), ("do", (do,))):
        tensors[name][0, :, 0, 0] = values
    return Case("one-channel/enumerated@0", "article", problem, Inputs(**tensors))


def check(case: Case, contract: Contract, order: str, seed: int, tally: Tally) -> None:
    """Runs every conforming kernel on a case and counts what is outside."""
    bands = enclosure(contract, case.problem, case.inputs, order=order)
    for name, outputs in _answers(case, contract, order, seed):
        tally.runs[name] += 1
        for output, array in outputs.items():
            band = bands[output]
            outside = _outside(array, band)
            tally.elements += array.size
            tally.open += int((band.may_nan & ~band.must_nan & np.isposinf(band.hi)).sum())
            if outside:
                tally.violations.append(
                    {"case": case.id, "contract": contract.name, "order": order, "kernel": name,
                     "output": output, "outside": outside}
                )  # fmt: skip


def _answers(
    case: Case, contract: Contract, order: str, seed: int
) -> Iterator[tuple[str, Outputs]]:
    for make in conforming(contract, order):
        arithmetic = make(seed)
        with np.errstate(all="ignore"):
            yield (
                arithmetic.name,
                interpret(contract, case.problem, case.inputs, arithmetic).outputs,
            )
    simulation = Simulation()
    if isinstance(simulation.supports(case), Supported):
        yield "simulation", simulation.backward(case)


def _outside(array: Any, band: Band) -> int:
    judged = compare(array, band)
    nan = np.isnan(array) & ~band.may_nan
    return int(((judged.margin > 1) | nan).sum())


def sweep(families: Sequence[str], per: int, *, seed: int = 0, shard: Shard = WHOLE) -> Tally:
    """A shard of all families and modes."""
    tally, start = Tally(), time.process_time()
    for family, mode in product(families, DELTAS):
        for number, planned in enumerate(plan(family, mode, per, seed=seed, shard=shard)):
            check(*planned, seed + shard[0] + number * shard[1], tally)
            tally.cases[f"{family} {mode}"] += 1
    tally.cpu_seconds = time.process_time() - start
    return tally


def search(
    families: Sequence[str], per: int, *, seed: int, workers: int, shard: Shard = WHOLE
) -> dict[str, Any]:
    """The record of a shard.

    Args:
        families: Names of ``swept_families``.
        per: Distinct cases of each family and mode, in the whole search.
        seed: Seed of the whole search.
        workers: Processes that share the shard's cases.
        shard: Which of the cases.
    """
    plans, whole = dict(zip(PLAN, (",".join(families), per, seed), strict=True)), Tally()
    for tally in parallel(workers, _sweep, plans, shard):
        whole.add(tally)
    return {**plans, "shard": list(shard), **whole.to_json()}


def merge(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One record of all shards of one search.

    Raises:
        InputError: If they are of different plans, or not all of its shards.
    """
    plans = [{name: record[name] for name in PLAN} for record in records]
    require_every_shard(records, plans)
    whole = Tally()
    for record in records:
        whole.add(Tally.from_json(record))
    return {**plans[0], "shard": list(WHOLE), **whole.to_json()}


def _sweep(part: Shard, plans: dict[str, Any], shard: Shard) -> Tally:
    """Part i of n of a shard."""
    inner = part_of(shard, part)
    return sweep(plans["families"].split(","), plans["per"], seed=plans["seed"], shard=inner)
