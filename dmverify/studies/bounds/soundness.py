"""Soundness: kernels that conform are never outside the enclosures.

    python -m dmverify.studies.bounds.soundness --per 100 --out soundness.json
    python -m dmverify.studies.bounds.soundness --families one-channel --per 243 --out small.json

Every family and delta mode gets ``per`` distinct cases: variants and seeds in turn, casts,
contracts and orders in turn, small shapes. Each case is run by the conforming kernels of its
contract (``kernels``), and by the torch simulation where that serves it. A violation is an output
element outside its band, or NaN where none may be.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from dmverify.conformance.adapter import Supported
from dmverify.conformance.checks.bands import compare
from dmverify.conformance.families import FAMILIES, generate, list_cases
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.errors import InputError
from dmverify.spec.attention import interpret
from dmverify.spec.case import Case, Inputs, Outputs
from dmverify.spec.contracts import DELTAS, DS_CASTS, Contract, get_contract
from dmverify.spec.enclosure import Band, enclosure
from dmverify.spec.problem import Problem
from dmverify.studies.bounds.kernels import conforming

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

    def to_json(self) -> dict[str, Any]:
        """For the record."""
        return {
            "cases": sum(self.cases.values()),
            "kernel_runs": dict(self.runs),
            "elements": self.elements,
            "open": self.open,
            "least_per_family_and_mode": min(self.cases.values(), default=0),
            "per_family_and_mode": dict(sorted(self.cases.items())),
            "violations": self.violations,
        }


Planned: TypeAlias = tuple[Case, Contract, str]


def plan(family: str, mode: str, per: int, *, seed: int = 0) -> Iterator[Planned]:
    """``per`` distinct cases of a family in one delta mode, with contract and order."""
    if family == ENUMERATED:
        yield from islice(_enumerated(mode), per)
        return
    endless = (
        (text, (contract, order, cast))
        for round_ in range(10**6)
        for text in list_cases(family, seed=seed + round_)
        for contract, order, cast in [_form(round_, text)]
    )
    for number, (text, (base, order, cast)) in enumerate(islice(endless, per)):
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
            tally.open += int(band.may_nan.sum())
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


def sweep(
    families: Sequence[str], per: int, *, seed: int = 0, seconds: float = float("inf")
) -> Tally:
    """All families and modes; stops early when the time is up."""
    tally, start = Tally(), time.monotonic()
    for family, mode in product(families, DELTAS):
        for number, (case, contract, order) in enumerate(plan(family, mode, per, seed=seed)):
            if time.monotonic() - start > seconds:
                return tally
            check(case, contract, order, seed + number, tally)
            tally.cases[f"{family} {mode}"] += 1
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--per", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--families", default=",".join((*FAMILIES, "capture")))
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    start = time.process_time()
    whole = Tally()
    for family in options.families.split(","):
        tally = sweep([family], options.per, seed=options.seed)
        whole.cases += tally.cases
        whole.runs += tally.runs
        whole.elements += tally.elements
        whole.open += tally.open
        whole.violations += tally.violations
        record = {**whole.to_json(), "cpu_seconds": round(time.process_time() - start)}
        options.out.write_text(json.dumps(record, indent=1) + "\n")
        sys.stderr.write(f"{family}: {sum(whole.cases.values())} cases, "
                         f"{len(whole.violations)} violations\n")  # fmt: skip
    return 1 if whole.violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
