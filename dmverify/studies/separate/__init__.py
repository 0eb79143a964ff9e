"""``study separate``: a small model on which FP8 training falls behind, and what drives it.

On a Hopper GPU it trains what is missing for up to ten minutes and reports; with ``out`` a second
call goes on. Without a GPU it reports the recorded runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dmverify.errors import naming_extras
from dmverify.studies.recorded import recorded
from dmverify.studies.separate.report import plots, rows, tables
from dmverify.studies.separate.table import jobs
from dmverify.studies.study import Progress, Study, StudyResult, checked_seeds
from dmverify.studies.training.job import Job
from dmverify.studies.training.setting import TINY

SITTING = 570.0  # seconds
SUMMARY = "when and why FP8 training falls behind on a small model, simulated and on real FP8"
METHOD = (
    "A byte-level model of 3 million parameters (4 layers, width 256, 2 heads of 128, no "
    "QK-normalisation, 256 tokens) on the source of Python's standard library; 32 sequences a "
    "step, AdamW at 1e-3 after 100 steps of warm-up. A seed has the same first weights and batches "
    "in every variant, so differences are paired. Simulated FP8: the article's blocks, amax "
    "clamped at 2^-100. Attention's products are in float32; 'products' says what the linear "
    "layers are in (tf32: every product).",
    "What would refute the mechanism: a variant whose row sums push K (stale, no centring) that "
    "keeps up over eight seeds; a run that falls behind although dK's mean is projected out or K's "
    "mean is held; a matched run that stays well although stale's column sums are put in.",
)


def run(
    *,
    seeds: Sequence[int] | None = None,
    quick: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Trains what is missing, or reports what was recorded.

    Args:
        seeds: Of weights and batches, for every run; else each run's own.
        quick: A tiny model and a few steps, on any machine.
        out: A directory for records, JSON, pictures and page; a second call goes on from there.
        progress: Told after each run.

    Raises:
        InputError: For seeds that are negative, repeated or none at all.
        DependencyError: If torch is missing, or ``out`` is given and matplotlib is.
    """
    report = progress or (lambda line: None)
    work = jobs() if seeds is None else _with_seeds(checked_seeds(seeds, (0,)))
    with naming_extras():
        from dmverify.studies.training.runs import on_gpu, records_of
    if quick:
        records = records_of(_small(work), out=out, progress=report)
    elif on_gpu():
        records = records_of(work, out=out, progress=report, seconds=SITTING)
    else:
        report("no GPU: these are the recorded runs")
        records = recorded("separate")["runs"]
    result = result_of(records)
    if out is not None:
        result.write(out)
    return result


def result_of(records: Sequence[dict[str, Any]]) -> StudyResult:
    """Tables and pictures of some records."""
    found = rows(records)
    data = {"study": "separate", "rows": found, "runs": list(records)}
    return StudyResult("separate", SUMMARY, METHOD, data, tables(found), plots(records))


def _with_seeds(seeds: tuple[int, ...]) -> tuple[Job, ...]:
    return tuple(replace(job, seeds=seeds) for job in jobs())


def _small(work: Sequence[Job]) -> list[Job]:
    """The simulated runs of the first group on a tiny model."""
    tiny = replace(TINY, biases=True)
    return [
        replace(job, setting=tiny, seeds=job.seeds[:2], steps=4, precision="fp32", probe=2)
        for job in work
        if job.label == work[0].label
    ]


STUDY = Study("separate", SUMMARY, run)
