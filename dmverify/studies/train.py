"""``study train``: the article's character model, in the article's four variants and in more.

428,928 parameters, 800 steps, three seeds side by side; the text is the language reference that
ships with Python, since the article's is not public.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from dmverify.cores import usable_cores
from dmverify.errors import naming_extras
from dmverify.studies.plot import Panel, Plot, Series
from dmverify.studies.rounding import shown
from dmverify.studies.study import Progress, Study, StudyResult, Table, checked_seeds, whole
from dmverify.studies.training.job import Job
from dmverify.studies.training.read import Record, curve, last, over_training
from dmverify.studies.training.recipe import EXACT, Recipe, fp8
from dmverify.studies.training.setting import CHARACTERS, TINY
from dmverify.studies.training.statistics import paired

SEEDS, STEPS, PROBE = (0, 1, 2), 800, 50
SUMMARY = "the article's character model trained with every delta and cast, beside its figures"
METHOD = (
    "Two layers of width 128 with 4 heads of 32, QK-RMSNorm with learnable gains, 64 characters of "
    "context, 4 sequences a step, AdamW at 1e-3; the article gives sizes and steps, the rest is "
    "ours. Attention by contract article, gradients kept in float32. Seeds share initial weights "
    "and batches between variants, so differences are paired; intervals are 95 %, Student's t.",
    "Residual: |row sum of dS| / sum |dS|, median over rows; here the median over layers, over the "
    "probes after the first (every 50 steps) and over seeds.",
)
RECIPES: tuple[Recipe, ...] = (
    EXACT,
    fp8("stale"),
    fp8("consistent"),
    fp8("matched"),
    fp8("shifted"),
    fp8("renormalized"),
    fp8("associated", normaliser="codes"),
    fp8("matched", ds_cast="zero-sum"),
    fp8("matched", ds_cast="stochastic"),
)
# The article's: validation, residual before and after the cast, the largest channel's share.
ARTICLE: dict[str, tuple[float, float | None, float | None, float]] = {
    "exact": (2.7447, None, None, 4.9e-2),
    "stale": (2.7447, 1.0e-2, 1.3e-2, 4.8e-2),
    "consistent": (2.7446, 5.2e-3, 8.5e-3, 4.7e-2),
    "matched": (2.7462, 3.5e-8, 6.1e-3, 4.6e-2),
}


def run(
    *,
    seeds: Sequence[int] | None = None,
    quick: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Trains every variant, side by side on a CPU; ``out`` keeps finished runs.

    Args:
        seeds: Seeds of weights and batches; 0, 1, 2 unless given.
        quick: A tiny model and a few steps.
        out: A directory for records, JSON, pictures and page; a second call goes on from there.
        progress: Told after each variant.

    Raises:
        InputError: For seeds that are negative, repeated or none at all.
        DependencyError: If torch is missing, or ``out`` is given and matplotlib is.
    """
    chosen = checked_seeds(seeds, SEEDS)
    with naming_extras():
        from dmverify.studies.training.runs import records_of
    records = records_of(
        jobs(chosen, quick=quick),
        out=out,
        progress=progress,
        processes=1 if quick else usable_cores(),
    )
    result = report(records).asked(seeds=seeds, quick=quick)
    if out is not None:
        result.write(out)
    return result


def jobs(seeds: tuple[int, ...], *, quick: bool = False) -> list[Job]:
    """One run a variant."""
    setting = replace(TINY, qk_norm=True, corpus=CHARACTERS.corpus) if quick else CHARACTERS
    steps, probe = (4, 2) if quick else (STEPS, PROBE)
    return [Job("train", setting, recipe, seeds, steps, "fp32", probe) for recipe in RECIPES]


STUDY = Study("train", SUMMARY, run)


def report(records: Sequence[Record]) -> StudyResult:
    """Tables and pictures of the records."""
    rows = [_row(record, records[0]) for record in records]
    data: dict[str, Any] = {"rows": rows, "runs": list(records)}
    return StudyResult(
        "train", SUMMARY, METHOD, data, tables(rows), plots(records), command=whole("train")
    )


def _row(record: Record, exact: Record) -> dict[str, Any]:
    """The figures of one variant; differences are paired with the exact run."""
    fp8_run = record["recipe"]["arithmetic"] == "fp8"
    gap = paired(last(record), last(exact))
    return {
        "name": record["name"],
        "validation": fmean(last(record)),
        "gap": gap.mean,
        "gap_half": gap.half,
        "residual": median(over_training(record, "residual")) if fp8_run else None,
        "residual_cast": median(over_training(record, "residual_cast")) if fp8_run else None,
        "share": share(record),
    }


def share(record: Record) -> float:
    """The largest channel's share of sum (g_q g_k)^2 in the last layer, mean over seeds."""
    return fmean(record["points"][-1]["top_gain"][-1])


def tables(rows: Sequence[dict[str, Any]]) -> tuple[Table, ...]:
    """Ours beside the article's."""
    cells = []
    for row in rows:
        article = ARTICLE.get(row["name"], (None, None, None, None))
        half = "" if row["gap_half"] is None else f" ± {row['gap_half']:.4f}"
        cells.append(
            (
                row["name"],
                f"{row['validation']:.4f}",
                f"{row['gap']:+.4f}{half}",
                shown(row["residual"]),
                shown(row["residual_cast"]),
                f"{100 * row['share']:.1f} %",
                "-" if article[0] is None else f"{article[0]:.4f}",
                shown(article[1]),
                shown(article[2]),
                "-" if article[3] is None else f"{100 * article[3]:.1f} %",
            )
        )
    columns = (
        "variant", "validation", "minus exact", "residual", "after cast", "top channel",
        "article: validation", "residual", "after cast", "top channel",
    )  # fmt: skip
    note = (
        "Validation: cross-entropy in nats on held-out text, which is another text than the "
        "article's, so only differences compare. Top channel: the largest share of squared gain "
        "products in the last layer; 1/32 is 3.1 %."
    )
    return (Table("Validation, residuals and gains", columns, tuple(cells), note),)


def plots(records: Sequence[Record]) -> tuple[Plot, ...]:
    """Residuals over training."""
    chosen = [r for r in records if r["name"] in ("stale", "consistent", "matched")]
    if not chosen:
        return ()
    steps, _ = curve(chosen[0], "residual", 0)
    panels = tuple(
        Panel(title, "|row sum of dS| / sum of |dS|", tuple(_lines(chosen, name)))
        for title, name in (("before the cast", "residual"), ("after the cast", "residual_cast"))
    )
    caption = "Residual of the last layer while the character model trains, mean over seeds, 95 %."
    return (Plot("residuals", caption, "step", steps, panels, x_scale="linear"),)


def _lines(records: Sequence[Record], name: str) -> list[Series]:
    top = len(records[0]["points"][0]["layers"]) - 1
    found = []
    for record in records:
        _, values = curve(record, name, top)
        halves = [value.half for value in values]
        means = [value.mean for value in values]
        found.append(Series(record["name"], means, record["name"], half=halves))
    return found
