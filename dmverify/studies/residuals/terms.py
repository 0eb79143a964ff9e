"""The residual's terms and bounds by the exact ledger, on one seed.

Per spread and mode: the median over rows of each |term| / sum_j |dS|, the median and maximum of the
residual, and the median of its bound, the sum of the bounds of the terms. Margins are the largest
|term| / bound over rows: at most 1 where a kernel conforms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmverify.spec.attention import interpret
from dmverify.spec.case import F64
from dmverify.spec.ledger import Ledger, ledger
from dmverify.studies.residuals.grid import ModeVariant
from dmverify.studies.residuals.sweep import Point
from dmverify.studies.rounding import significant
from dmverify.studies.study import Progress


def term_rows(
    spreads: Sequence[float], variants: Sequence[ModeVariant], seed: int, progress: Progress
) -> list[dict[str, Any]]:
    """One record a spread and variant, gaussian inputs."""
    rows = []
    for spread in spreads:
        point = Point("gaussian", spread, seed)
        for variant in variants:
            rows.append(_record(_ledger(point, variant), point, variant))
        progress(f"ledger: {point}")
    return rows


def _ledger(point: Point, variant: ModeVariant) -> Ledger:
    problem, inputs = point.tensors()
    run = interpret(variant.contract, problem, inputs, variant.arithmetic, internals=True)
    if run.internals is None:
        raise ValueError("a ledger needs a run with internals=True")
    return ledger(
        variant.contract, problem, inputs=inputs, internals=run.internals, outputs=run.outputs
    )


def _record(book: Ledger, point: Point, variant: ModeVariant) -> dict[str, Any]:
    rows = book.defined & (book.size > 0)
    ratios = np.abs(book.residual[rows]) / book.size[rows]
    bound: F64 = np.sum([book.bounds[name] for name in book.terms], axis=0)
    return {
        "inputs": point.inputs,
        "spread": point.spread,
        "seed": point.seed,
        "base": variant.base,
        "contract": variant.contract.name,
        "delta": variant.delta,
        "closes": bool(book.closes.all()),
        "rows": int(rows.sum()),
        "undefined": significant(1 - book.defined.mean()),
        "residual": significant(np.median(ratios)),
        "residual_max": significant(ratios.max()),
        "bound_max": significant((bound[rows] / book.size[rows]).max()),
        "bound": significant(np.median(bound[rows] / book.size[rows])),
        "terms": {
            name: significant(np.median(np.abs(book.values[name][rows]) / book.size[rows]))
            for name in book.names
        },
        "margins": {name: significant(book.margin(name).max()) for name in book.names},
    }
