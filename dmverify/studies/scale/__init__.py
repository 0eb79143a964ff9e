"""``study scale``: how residuals and errors follow length, width, spread and offsets.

The last 256 queries of causal heads, since a residual is a row's; so 65,536 keys need no GPU.
What a Hopper GPU adds, the truncation of its accumulators, comes from a record of the bundled
kernel (``card``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dmverify.errors import naming_extras
from dmverify.spec.bounds import measure as norms_of
from dmverify.spec.bounds import residual as closed_residual
from dmverify.spec.contracts import get_contract
from dmverify.studies.recorded import recorded
from dmverify.studies.resume import kept
from dmverify.studies.rounding import significant
from dmverify.studies.scale.grid import Place, places
from dmverify.studies.scale.report import plots, tables
from dmverify.studies.study import Progress, Study, StudyResult, checked_seeds, whole
from dmverify.studies.training.recipe import Recipe, fp8

SEEDS = (0, 1, 2)
SUMMARY = "residuals and errors by length, head dim, spread, offsets, and where a mode stops"
METHOD = (
    "The last 256 queries of a causal head with standard normal q, k, v, dO: 2,048 keys, 64 "
    "channels, spread 2, no offsets, one of these varied at a time; medians over three seeds. "
    "Contract article, simulated in float32; errors against float64 attention on the BF16 inputs. "
    "Bound: the closed form of a row's sum before the cast, over the median of sum |dS|.",
    "A mode is trusted while its residual before the cast is below what the nearest cast of dS "
    "leaves by itself in the median row of the same place.",
    "Real FP8: the bundled kernel on an H200, as recorded. Bias of O: the mean of (O - float64 "
    "attention on the BF16 inputs) over the mean of |O|, with V = |normal|, 64 rows.",
)
VARIANTS: dict[str, Recipe] = {
    "stale": fp8("stale"),
    "stale, K as it is": fp8("stale", centre_k="none"),
    "consistent": fp8("consistent"),
    "matched": fp8("matched"),
    "matched, K as it is": fp8("matched", centre_k="none"),
    "renormalized": fp8("renormalized"),
    "shifted": fp8("shifted"),
    "associated": fp8("associated", normaliser="codes"),
    "matched, zero-sum": fp8("matched", ds_cast="zero-sum"),
}


def run(
    *,
    seeds: Sequence[int] | None = None,
    quick: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Measures every place, about five minutes on two cores.

    Args:
        seeds: Seeds of the inputs; 0, 1, 2 unless given.
        quick: Two places an axis and one seed.
        out: A directory for JSON, pictures and page; a second call goes on from there.
        progress: Told after each place.

    Raises:
        InputError: For seeds that are negative, repeated or none at all.
        DependencyError: If torch is missing, or ``out`` is given and matplotlib is.
    """
    chosen = checked_seeds(seeds, SEEDS[:1] if quick else SEEDS)
    with naming_extras():
        from dmverify.studies.training import heads
    rows: list[dict[str, Any]] = []
    for axis, value, place in places(quick=quick):
        runs = [
            kept(
                out,
                {"study": "scale", **asdict(place), "seed": seed},
                partial(_at, place, seed, heads.of_call),
            )
            for seed in chosen
        ]
        rows += [{"axis": axis, "x": value, **row} for row in _medians(runs)]
        if progress is not None:
            progress(f"{axis} {value:g}")
    result = report(rows, recorded("scale-card")["rows"]).asked(seeds=seeds, quick=quick)
    if out is not None:
        result.write(out)
    return result


STUDY = Study("scale", SUMMARY, run)


def report(rows: list[dict[str, Any]], card: list[dict[str, Any]]) -> StudyResult:
    """Tables and pictures."""
    data = {"rows": rows, "card": card}
    return StudyResult(
        "scale",
        SUMMARY,
        METHOD,
        data,
        tables(rows, card),
        plots(rows, card),
        command=whole("scale"),
    )


def _at(place: Place, seed: int, measured: Any) -> list[dict[str, Any]]:
    """A row a variant, of one seed."""
    problem, inputs = place.problem(), place.inputs(seed)
    rows = []
    for name, found in measured(inputs, VARIANTS).items():
        recipe = VARIANTS[name]
        size = found.pop("size")
        bound = None
        if recipe.centre_k == "mean":
            words = {"delta": recipe.delta, "normaliser": recipe.normaliser}
            contract = get_contract("article", **words)
            norms = norms_of(contract, problem, inputs)
            bound = closed_residual(contract, problem=problem, norms=norms).value / size
        rows.append({"variant": name, **found, "bound": bound})
    return rows


def _medians(runs: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Over seeds, a variant; None where a seed has no number."""
    rows = []
    for same in zip(*runs, strict=True):
        row: dict[str, Any] = {"variant": same[0]["variant"]}
        for key in same[0].keys() - {"variant"}:
            values = [one[key] for one in same]
            row[key] = None if None in values else significant(np.median(values))
        rows.append(row)
    return rows
