"""What the CPU does while the GPU runs: the specification's bits of each case, in processes."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmverify.conformance.families import generate
from dmverify.errors import DmverifyError
from dmverify.lab.recordings.digests import digest_of
from dmverify.lab.recordings.shipped import differing, expected
from dmverify.spec.arithmetic import Double, Single
from dmverify.spec.attention import interpret
from dmverify.spec.case import Outputs
from dmverify.spec.contracts import get_contract
from dmverify.spec.recording import digest_inputs

_SERIAL = multiprocessing.Value("i", 0)


@dataclass(frozen=True)
class Judged:
    """One case compared.

    Attributes:
        case: Its id.
        contract: Its contract.
        values: Numbers compared.
        wrong: Output name -> numbers that differ.
        first: Output name -> where the first one is, what was got and what is due.
        digests: Hashes of what the kernel returned.
        inputs: Hash of the inputs.
        refused: Why the specification has no answer, if it has none.
    """

    case: str
    contract: str
    values: int
    wrong: dict[str, int]
    first: dict[str, Any]
    digests: dict[str, str]
    inputs: str
    refused: str = ""


def judge(case_id: str, contract: str, got: Outputs) -> Judged:
    """Compares a kernel's outputs with the specification's."""
    case = generate(case_id, contract=contract)
    hashes = digest_of(got), digest_inputs(case.inputs)
    try:
        due = expected(case)
    except DmverifyError as error:
        return Judged(case_id, contract, 0, {}, {}, *hashes, str(error))
    pairs = [(name, array, getattr(due, name)) for name, array in got.items()]
    wrong = {name: count for name, a, b in pairs if (count := differing(a, b))}
    first = {name: _first(a, b) for name, a, b in pairs if name in wrong and a.shape == b.shape}
    values = sum(array.size for _, array, _ in pairs)
    return Judged(case_id, contract, values, wrong, first, *hashes)


def errors(case_id: str) -> dict[str, tuple[float, float]]:
    """Distances of the article's recipe from float64 attention: output -> (distance, size)."""
    case = generate(case_id, contract="article")
    run = interpret(get_contract("article"), case.problem, case.inputs, Single()).outputs
    return distances(case_id, run)


def distances(case_id: str, got: Outputs) -> dict[str, tuple[float, float]]:
    """Frobenius distance of O and dQ from float64 attention on the BF16 inputs, and its size."""
    case = generate(case_id, contract="article")
    due = interpret(get_contract("article"), case.problem, case.inputs, Double()).values
    return {
        name: (
            float(np.linalg.norm(getattr(got, name).astype(np.float64) - due[name])),
            float(np.linalg.norm(due[name])),
        )
        for name in ("o", "dq")
    }


def open_pool() -> ProcessPoolExecutor:
    """Processes for all cores but one; open it before CUDA starts, since they are forked."""
    workers = max(1, (os.cpu_count() or 2) - 1)
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_settle)
    list(pool.map(abs, range(workers)))
    return pool


def _settle() -> None:
    """One core a process: the array code would start a thread for every core it may use."""
    with _SERIAL.get_lock():
        serial = _SERIAL.value
        _SERIAL.value += 1
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[(serial + 1) % len(cores)]})


def _first(got: Any, due: Any) -> list[object]:
    other = (got.view(np.uint32) != due.view(np.uint32)) & ~(np.isnan(got) & np.isnan(due))
    at = tuple(int(i) for i in np.argwhere(other)[0])
    return [list(at), float(got[at]), float(due[at])]
