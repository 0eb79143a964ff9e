"""``study real-model``: residuals on attention of trained models, a layer and head at a time.

The shipped captures: a sentence encoder with its published weights (six layers, four heads each,
two passages) and a character model at three steps of its training. ``--inputs FILE`` takes
captures of your own instead, such as ``dmverify.capture`` writes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dmverify.conformance.captures import list_captures
from dmverify.conformance.captures.statistics import statistics
from dmverify.conformance.families import generate
from dmverify.conformance.tensor_files import read_cases
from dmverify.conformance.tensor_files.source import Source
from dmverify.errors import InputError
from dmverify.spec.attention import interpret
from dmverify.spec.case import F64, Inputs, Internals
from dmverify.spec.ledger import ledger
from dmverify.spec.problem import Problem
from dmverify.studies.blas import one_blas_thread
from dmverify.studies.real_model_report import plots, tables
from dmverify.studies.residuals.grid import ModeVariant
from dmverify.studies.residuals.measures import row_ratios
from dmverify.studies.resume import kept
from dmverify.studies.rounding import significant
from dmverify.studies.study import Progress, Study, StudyResult, checked_seeds, whole

SUMMARY = "residuals and their causes on attention of trained models, a head at a time"
METHOD = (
    "Residual: |row sum of dS| / sum |dS|, median over a head's rows, in float32 by the contract's "
    "steps (bundled in the bits of Hopper). Sharpness: median over rows of the largest "
    "probability. Shares: |term| over the sum of all |terms| of the exact ledger, summed over the "
    "rows of the capture.",
)
DELTAS = ("stale", "consistent", "matched", "renormalized", "shifted", "associated")
VARIANTS = (
    *(ModeVariant("article", delta) for delta in DELTAS),
    *(ModeVariant("article", delta, "zero-sum") for delta in ("stale", "matched", "shifted")),
    *(ModeVariant("bundled", delta) for delta in ("stale", "matched", "shifted")),
    *(ModeVariant("bundled", delta, "zero-sum") for delta in ("matched", "shifted")),
)
QUICK = VARIANTS[:3]
EXPLAINED = (ModeVariant("article", "stale"), ModeVariant("bundled", "stale"))


@dataclass(frozen=True)
class Taken:
    """One captured attention call."""

    name: str
    problem: Problem
    inputs: Inputs

    @property
    def digest(self) -> str:
        """SHA-256 of the tensors and of how they are asked."""
        found = hashlib.sha256(repr(self.problem).encode())
        for _, x in self.inputs.items():
            found.update(np.ascontiguousarray(x).tobytes())
        return found.hexdigest()[:16]


def run(
    *,
    seeds: Sequence[int] | None = None,
    quick: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
    inputs: Sequence[Source] = (),
) -> StudyResult:
    """Measures every head of every capture under every variant, a few minutes.

    Args:
        seeds: Nothing is drawn here; they change nothing.
        quick: Two captures and three variants.
        out: A directory for JSON, pictures and page; a second call goes on from there.
        progress: Told after each capture.
        inputs: Files of tensors in place of the shipped captures.

    Raises:
        InputError: For files that hold no tensors to ask, or no gradient dO.
        DependencyError: If ``out`` is given and matplotlib is missing.
    """
    checked_seeds(seeds, (0,))
    variants = QUICK if quick else VARIANTS
    rows: list[dict[str, Any]] = []
    shares: list[dict[str, Any]] = []
    with one_blas_thread():
        for taken in _taken(inputs, quick):
            key = {"name": taken.name, "variants": len(variants), "inputs": taken.digest}
            part = kept(out, key, partial(_part, taken, variants))
            rows, shares = rows + part["rows"], shares + part["shares"]
            if progress is not None:
                progress(f"{taken.name}: {taken.problem.heads} heads")
    result = report(rows, shares).asked(seeds=seeds, quick=quick)
    if out is not None:
        result.write(out)
    return result


STUDY = Study("real-model", SUMMARY, run, takes=frozenset({"inputs"}))


def _part(taken: Taken, variants: Sequence[ModeVariant]) -> dict[str, list[dict[str, Any]]]:
    """Rows and shares of one capture."""
    explained = [variant for variant in EXPLAINED if variant in variants]
    shares = [shares_of(taken, variant) for variant in explained]
    return {"rows": heads_of(taken, variants), "shares": shares}


def _taken(sources: Sequence[Source], quick: bool) -> Iterator[Taken]:
    if sources:
        yield from _brought(sources)
        return
    names = list_captures()
    for name in names[:1] + names[-1:] if quick else names:
        case = generate(f"capture/{name}@0")
        yield Taken(name, case.problem, case.inputs)


def _brought(sources: Sequence[Source]) -> Iterator[Taken]:
    for source in sources:
        for one in read_cases(source):
            if not one.has_gradient:
                raise InputError(
                    f"{one.source}, without dO",
                    rule="residuals need the gradient of the output, do",
                    fix="capture a backward pass too",
                )
            yield Taken(str(one.source.prefix or one.source.path.stem), one.problem, one.inputs)


def heads_of(taken: Taken, variants: Sequence[ModeVariant]) -> list[dict[str, Any]]:
    """A row a head and variant."""
    sharp = sharpness(taken)
    rows = []
    for variant in variants:
        inside = _inside(taken, variant)
        for head in range(taken.problem.heads):
            before, after = (_median(x[:, head]) for x in (inside.ds, inside.ds_cast))
            rows.append(
                {
                    "capture": taken.name,
                    "head": head,
                    "contract": variant.contract.name,
                    "base": variant.base,
                    "delta": variant.delta,
                    "ds_cast": variant.ds_cast,
                    "sharpness": sharp[head],
                    "residual": before,
                    "residual_cast": after,
                }
            )
    return rows


def sharpness(taken: Taken) -> list[float]:
    """Sharpness of every query head."""
    tensors, problem = dict(taken.inputs.items()), taken.problem
    tensors |= {name: np.repeat(tensors[name], problem.group, axis=2) for name in ("k", "v")}
    return statistics(tensors, causal=problem.causal, softmax_scale=problem.scale)["sharpness"]


def _inside(taken: Taken, variant: ModeVariant) -> Internals:
    found = interpret(
        variant.contract, taken.problem, taken.inputs, variant.arithmetic, internals=True
    )
    assert found.internals is not None
    return found.internals


def _median(ds: F64) -> float | None:
    """Over the rows (B, Nq, Nk) of a head that hold numbers."""
    ratios = row_ratios(ds, np.asarray(np.isfinite(ds).all(axis=-1)))
    return significant(np.median(ratios)) if ratios.size else None


def shares_of(taken: Taken, variant: ModeVariant) -> dict[str, Any]:
    """How much each term of the ledger has of the row sums."""
    contract, problem = variant.contract, taken.problem
    found = interpret(contract, problem, taken.inputs, variant.arithmetic, internals=True)
    assert found.internals is not None
    book = ledger(
        contract, problem, inputs=taken.inputs, internals=found.internals, outputs=found.outputs
    )
    sizes = {name: float(np.abs(book.values[name][book.defined]).sum()) for name in book.terms}
    whole = sum(sizes.values()) or 1.0
    return {
        "capture": taken.name,
        "contract": contract.name,
        "closes": bool(book.closes.all()),
        "shares": {name: significant(size / whole) for name, size in sizes.items()},
    }


def report(rows: list[dict[str, Any]], shares: list[dict[str, Any]]) -> StudyResult:
    """Tables and pictures."""
    data = {"rows": rows, "shares": shares}
    return StudyResult(
        "real-model",
        SUMMARY,
        METHOD,
        data,
        tables(rows, shares),
        plots(rows),
        command=whole("real-model"),
    )
