"""How other kernels do on inputs that an attack found, beside the worst that families ask of them.

Every kernel is asked the files of a corpus and all families' cases in one shape. An error is the
attack's: over max(norm of the exact output, 5 % of its size), against attention on the inputs, and
on what the kernel's own contract leaves of them. A kernel without a backward shows O alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from dmverify.attack.corpus import read_corpus
from dmverify.attack.evaluate import Evaluator
from dmverify.attack.limits import get_limits
from dmverify.attack.objective import AGAINST, ERRORS, Objective, column_sums, distance
from dmverify.attack.stack import Stack, from_arrays
from dmverify.conformance.adapter import Kernel, Unsupported
from dmverify.conformance.families import FAMILIES, generate
from dmverify.conformance.kernels.simulation import Simulation
from dmverify.conformance.resolve import resolve_kernel
from dmverify.errors import DmverifyError
from dmverify.lab.third_party.kernels import PEERS
from dmverify.lab.third_party.kernels.peer import Peer
from dmverify.spec.case import Case
from dmverify.spec.problem import Problem

CONTRACTS = MappingProxyType(
    {
        "bundled": ("bundled", "bundled:delta=stale", "bundled:ds_cast=zero-sum"),
        "cudnn-fp8": ("cudnn-fp8",),
        "flash-3-fp8": ("flash-3-fp8",),
    }
)
"""Kernel, and the contracts that it is asked under."""
COLUMNS = "colsum"
KEPT = ("attack/", "gaussian/spread-1,")  # cases of which every number is recorded
LARGEST = 5  # numbers of families that are recorded of every output


@dataclass(frozen=True)
class Row:
    """One number of one answer.

    Attributes:
        kernel: Who answered.
        contract: Under which contract.
        case_id: What was asked.
        output: o, dq, dk, dv; or ``colsum``, what dK sums to over the keys.
        against: inputs or operands.
        value: The floored error; None if it is not finite.
        plain: The error over the exact output's norm alone; None where that is 0.
    """

    kernel: str
    contract: str
    case_id: str
    output: str
    against: str
    value: float | None
    plain: float | None = None


@dataclass(frozen=True)
class Refused:
    """A question without an answer, and why."""

    kernel: str
    contract: str
    case_id: str
    reason: str


def family_ids(problem: Problem) -> Iterator[str]:
    """Every variant of every family that fits a shape, seed 0, but the large ones."""
    sizes = ("batch", "heads", "kv_heads", "queries", "keys", "head_dim")
    words = ",".join(f"{name}={getattr(problem, name)}" for name in sizes)
    for family in FAMILIES.values():
        for variant in family.variants:
            if "on-demand" not in family.flags_of(variant):
                yield f"{family.name}/{variant},{words},causal={int(problem.causal)}@0"


def ask(
    kernel: Kernel, name: str, contract: str, cases: Iterable[tuple[str, Case]]
) -> Iterator[Row | Refused]:
    """What a kernel is off by on every case.

    Args:
        kernel: Who is asked.
        name: What it is called in the rows.
        contract: Whose operands its answers are compared on, too.
        cases: Ids and cases under that contract.
    """
    for case_id, case in cases:
        support = kernel.supports(case)
        if isinstance(support, Unsupported):
            yield Refused(name, contract, case_id, support.reason)
            continue
        try:
            yield from _rows(kernel, name, case_id, case)
        except Exception as error:  # another library's own error tells as much as an answer
            yield Refused(name, contract, case_id, f"{type(error).__name__}: {error}"[:400])


def _rows(kernel: Kernel, name: str, case_id: str, case: Case) -> Iterator[Row]:
    forward_only = isinstance(kernel, Peer) and not kernel.limits.backward
    outputs = (kernel.forward if forward_only else kernel.backward)(case)
    got = {n: torch.from_numpy(np.asarray(x)) for n, x in outputs.items() if n in ERRORS}
    stack = from_arrays({n: np.asarray(x) for n, x in case.inputs.items()})
    for against in AGAINST:
        due = _judge(case, against).due(stack)
        for output, x in got.items():
            far = distance(x, due.outputs[output], due.sizes[output])
            numbers = (_finite(far.value), _finite(far.plain))
            yield Row(name, case.contract, case_id, output, against, *numbers)
    if "dk" in got:
        found = _finite(column_sums(got["dk"]))
        yield Row(name, case.contract, case_id, COLUMNS, "inputs", found)


def _judge(case: Case, against: str) -> Evaluator:
    """Evaluates errors against what is due; the kernel in it is never asked."""
    objective = Objective("o", against)
    return Evaluator(Simulation(), case.contract, case.problem, objective, get_limits("stress"))


def _finite(x: torch.Tensor) -> float | None:
    number = float(x[0])
    return number if isfinite(number) else None


def questions(corpus: Path, contract: str) -> Iterator[tuple[str, Case]]:
    """The corpus by file, then all families in the shapes that it has."""
    entries = read_corpus(corpus)
    for entry in entries:
        yield f"attack/{entry.found.inputs[:16]}", _case(entry.problem, entry.stack, contract)
    for problem in dict.fromkeys(entry.problem for entry in entries):
        for case_id in family_ids(problem):
            try:
                yield case_id, generate(case_id, contract=contract)
            except DmverifyError:  # sizes that a family does not have
                continue


def _case(problem: Problem, stack: Stack, contract: str) -> Case:
    return stack.case(problem, contract)


def ask_corpus(corpus: Path, names: Iterable[str]) -> dict[str, Any]:
    """Asks kernels by their names; JSON values.

    Args:
        corpus: A folder that 'dmverify attack --out' wrote to.
        names: Keys of ``CONTRACTS``, or other kernels, which are asked under their own contract.

    Raises:
        UnknownNameError: For a kernel that does not exist.
    """
    rows: list[dict[str, Any]] = []
    refused: list[dict[str, Any]] = []
    made_by = {}
    for name in names:
        kernel = resolve_kernel(PEERS.get(name, name), in_process=True)
        for contract in CONTRACTS.get(name, (kernel.contract,)):
            for one in ask(kernel, name, contract, questions(corpus, contract)):
                (rows if isinstance(one, Row) else refused).append(asdict(one))
        made_by[name] = asdict(kernel.info)
    return {"made_by": made_by} | summary(rows) | {"refused": refused}


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is recorded of rows: attacks and N(0, 1) whole, of families the largest errors.

    Args:
        rows: ``Row`` as dictionaries.

    Returns:
        ``families``, how many cases each contract was asked; ``rows``; ``worst_of_families``.
    """
    asked: dict[str, set[str]] = {}
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row["case_id"].startswith("attack/"):
            continue
        asked.setdefault(row["contract"], set()).add(row["case_id"])
        if row["value"] is not None:
            group = tuple(row[name] for name in ("kernel", "contract", "output", "against"))
            groups.setdefault(group, []).append(row)
    worst = (sorted(group, key=lambda row: -row["value"])[:LARGEST] for group in groups.values())
    return {
        "families": {contract: len(cases) for contract, cases in asked.items()},
        "rows": [row for row in rows if row["case_id"].startswith(KEPT)],
        "worst_of_families": [row for some in worst for row in some],
    }
