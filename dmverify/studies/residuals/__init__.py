"""``study residuals``: how far from zero do the rows of dS sum, and what removes it?

The article's table on its toy heads, ours beside its figures, then what it does not have: three
more delta modes, the zero-sum cast, two more contracts, spreads up to 64, attention of trained
models, and the ledger's terms and bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dmverify.studies.blas import one_blas_thread
from dmverify.studies.residuals.grid import MAIN, SEEDS, Grid, ModeVariant, full_grid, quick_grid
from dmverify.studies.residuals.measures import MEASURES, Measures
from dmverify.studies.residuals.plots import plots
from dmverify.studies.residuals.published import compare, published_of
from dmverify.studies.residuals.sweep import Found, Point, jobs, sweep
from dmverify.studies.residuals.tables import tables
from dmverify.studies.residuals.terms import term_rows
from dmverify.studies.rounding import significant
from dmverify.studies.study import Progress, Study, StudyResult, checked_seeds, whole

SUMMARY = "row residuals of dS by delta mode, cast and contract, beside the article's table"
METHOD = (
    "Toy heads: 4 heads, 512 tokens, 64 channels, causal; q, k, v, dO standard normal, q times the "
    "logit spread, rounded to BF16. The outlier set multiplies every 16th value channel by 10 and "
    "the rows of dO by exp(normal). Random numbers: Philox 4x64-10 and our own Box-Muller.",
    "Arithmetic: float32 with numpy's order of summation and one BLAS thread, and for the contract "
    "bundled, whose every order is stated, the bits of Hopper (two seeds). Residual: |row sum| / "
    "sum of magnitudes of dS, summed in float64, median over rows and heads, then over seeds. O "
    "and dQ errors: Frobenius norm over all heads against float64 attention on the BF16 inputs. "
    "Rows with a NaN are left out and counted as undefined.",
    "The contracts article and upstream scale by amax / 448 and do not saturate: at spread 64 the "
    "far groups of P have a scale below the normal range, a code overflows to NaN, and so does "
    "that row of O. This is part of these contracts; bundled clamps and saturates. A row "
    "is flushed if its dS is all 0 after the cast, as a tile has one scale for all its rows; its "
    "ratio is 0, and the dQ error shows what was lost.",
)


def run(
    *,
    seeds: Sequence[int] | None = None,
    quick: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Measures the whole grid, or with ``quick`` a small one.

    Args:
        seeds: Seeds of the toy heads; 0 to 5 unless given (0 alone if quick).
        quick: Three spreads, one seed, two captures.
        out: A directory for JSON, pictures and page, or None.
        progress: Told after each tensor set.

    Raises:
        InputError: For seeds that are negative, repeated or none at all.
        DependencyError: If ``out`` is given and matplotlib is missing.
    """
    chosen = checked_seeds(seeds, SEEDS[:1] if quick else SEEDS)
    grid = quick_grid() if quick else full_grid()
    report = progress or _silent
    with one_blas_thread():
        found = sweep(jobs(grid, chosen), report)
        ledger = term_rows(grid.spreads, grid.ledger, chosen[0], report)
    data = _data(grid, chosen, found, ledger)
    result = StudyResult(
        "residuals", SUMMARY, METHOD, data, tables(data), plots(data), command=whole("residuals")
    )
    result = result.asked(seeds=seeds, quick=quick)
    if out is not None:
        result.write(out)
    return result


STUDY = Study("residuals", SUMMARY, run)


def _silent(line: str) -> None:
    """Nobody wants to know."""


def _data(
    grid: Grid, seeds: tuple[int, ...], found: Found, ledger: list[dict[str, Any]]
) -> dict[str, Any]:
    main = [
        _row(found, inputs, spread, variant, seeds)
        for inputs in grid.input_sets
        for spread in grid.spreads
        for variant in grid.main
    ]
    extra = [
        _row(found, "gaussian", spread, variant, seeds)
        for spread in grid.spreads
        for variant in grid.extra + grid.bits
    ]
    trained = [
        _row(found, name, 1.0, variant, (0,)) for name in grid.captures for variant in grid.trained
    ]
    compared = compare({(row["inputs"], row["spread"], row["delta"]): row for row in main})
    return {
        "seeds": list(seeds),
        "rows": main,
        "variants": extra,
        "captures": trained,
        "ledger": ledger,
        "published": [comparison.to_json() for comparison in compared],
    }


def _row(
    found: Found, inputs: str, spread: float, variant: ModeVariant, seeds: Iterable[int]
) -> dict[str, Any]:
    """One row of the JSON: medians over seeds, every seed, and the article's figures."""
    points = {seed: Point(inputs, spread, seed) for seed in seeds}
    used = [seed for seed, point in points.items() if (point, variant) in found]
    runs = [found[points[seed], variant] for seed in used]
    published = published_of(inputs, spread, variant.delta) if variant in MAIN else {}
    return {
        "inputs": inputs,
        "spread": spread,
        "delta": variant.delta,
        "base": variant.base,
        "contract": variant.contract.name,
        "arithmetic": variant.arithmetic.name,
        "seeds": used,
        "ds_cast": variant.ds_cast,
        **{name: significant(np.median(_each(runs, name))) for name in MEASURES},
        "article": published.get("residual"),
        "article_figures": published,
        "by_seed": {name: [significant(x) for x in _each(runs, name)] for name in MEASURES},
    }


def _each(runs: list[Measures], name: str) -> list[float]:
    return [getattr(measures, name) for measures in runs]
