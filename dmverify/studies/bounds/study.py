"""``study bounds``: how sharp the bounds are, and how they grow.

Sharpness over the families A1 to A10, constructed rows that attain closed forms, and pictures of
bound and observed error. Soundness and the search for counterexamples run for longer and are
commands of their own (``soundness``, ``refuter``); their records are shown.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dmverify.studies.blas import one_blas_thread
from dmverify.studies.bounds.attained import Attained, attained
from dmverify.studies.bounds.records import REFUTER, SOUNDNESS, SOUNDNESS_AGAIN
from dmverify.studies.bounds.sharpness import FAMILIES, Sharpness, measure_family, medians
from dmverify.studies.bounds.sweep import AXES, Point, picture, points
from dmverify.studies.rounding import significant
from dmverify.studies.study import Progress, Study, StudyResult, Table, checked_seeds, whole

SUMMARY = "how sharp the bounds are, by family, and how they grow with tokens, spread and offset"
METHOD = (
    "Sharpness is bound over observed error; 1 is attained. Outputs are enclosed from the "
    "contract's operands and compared with float64 attention on the dequantised operands, so both "
    "hold the quantisation of P and dS. 'worst' is the largest bound over the largest error, "
    "'closest' the least ratio of one element. Kernels: float32 with the library's order for "
    "article, the bits for bundled.",
    "With no order known, the tensor core's truncation may take 2^-13 of the largest partial sum "
    "per instruction in S and dP, and every code that depends on them becomes a set: the free form "
    "is loose by that term. Rows that should sum to 0 exactly (constant V, one-hot) have no error "
    "to compare with; there the bound is the roundings of matching terms.",
)
VARIANTS, QUICK_VARIANTS = 6, 1


def run(
    *,
    seeds: Sequence[int] | None = None,
    quick: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """The study (see ``dmverify.studies.study.StudyRun``)."""
    with one_blas_thread():
        rows, along = _measured(checked_seeds(seeds, (0,)), quick, progress or _silent)
        built = attained()
    table = medians(rows)
    data = {
        "sharpness": [_finite(row) for row in table],
        "cases": [_finite(asdict(row)) for row in rows],
        "attained": [asdict(one) | {"share": significant(one.share)} for one in built],
        "sweeps": [asdict(point) for found in along.values() for point in found],
    }
    result = StudyResult(
        study="bounds",
        summary=SUMMARY,
        method=METHOD,
        data=data,
        table_list=(_sharpness(table), _attained(built), _records()),
        plots=tuple(picture(axis, found) for axis, found in along.items()),
        command=whole("bounds"),
    ).asked(seeds=seeds, quick=quick)
    if out is not None:
        result.write(out)
    return result


def _measured(
    seeds: Sequence[int], quick: bool, tell: Progress
) -> tuple[list[Sharpness], dict[str, list[Point]]]:
    rows: list[Sharpness] = []
    for seed in seeds:
        for family in FAMILIES[:2] if quick else FAMILIES:
            tell(f"sharpness of {family}")
            count = QUICK_VARIANTS if quick else VARIANTS
            rows += measure_family(family, variants=count, seed=seed)
    along = {}
    for axis in AXES:
        tell(f"along {axis}")
        along[axis] = points(axis, quick=quick)
    return rows, along


def _silent(line: str) -> None:
    """Nobody is told."""


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: an open bound is None."""
    return {
        key: (None if value == float("inf") else significant(value))
        if isinstance(value, float)
        else value
        for key, value in row.items()
    }


def _sharpness(table: list[dict[str, Any]]) -> Table:
    cells = tuple(
        (
            f"{row['contract']}, {row['order']}",
            row["quantity"],
            f"{row['worst']:.3g}",
            f"{row['closest']:.3g}",
        )
        for row in table
    )
    return Table(
        "Bound over observed error, median over the families A1 to A10",
        ("contract, order", "quantity", "worst", "closest"),
        cells,
        "channels: the head dimension's order is fixed and the keys are free; free: no order.",
    )


def _attained(built: tuple[Attained, ...]) -> Table:
    cells = tuple(
        (
            one.contract,
            f"{one.observed:.4g}",
            f"{one.bound:.4g}",
            f"{one.share:.3f}",
            f"{one.share_of_terms:.3f}",
        )
        for one in built
    )
    return Table(
        "Row sums constructed to attain their closed form, 512 keys",
        ("contract", "observed", "bound", "share", "of its terms"),
        cells,
    )


def _records() -> Table:
    sweeps = [json.loads(path.read_text()) for path in (SOUNDNESS, SOUNDNESS_AGAIN)]
    search = json.loads(REFUTER.read_text())
    bounds = search["bounds"].values()
    cells = (
        *(
            (
                f"soundness, {len(sweep['families'].split(','))} families",
                f"{sweep['cases']} cases",
                len(sweep["violations"]),
                sweep["cpu_seconds"],
            )
            for sweep in sweeps
        ),
        (
            "refuter",
            f"{sum(row['evaluations'] for row in bounds)} evaluations",
            sum(row["violations"] for row in bounds),
            search["cpu_seconds"],
        ),
    )
    return Table(
        "Recorded runs",
        ("run", "size", "violations", "CPU seconds"),
        tuple((name, size, str(wrong), str(seconds)) for name, size, wrong, seconds in cells),
    )


STUDY = Study("bounds", SUMMARY, run)
