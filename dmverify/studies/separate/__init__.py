"""``study separate``: a small model on which FP8 training falls behind, and what drives it.

On a Hopper GPU it trains what is missing for up to ten minutes and reports; with ``out`` a second
call goes on, and several at once share the runs. Without a GPU it reports the runs of ``out``, or
else the recorded ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dmverify.errors import InputError, naming_extras
from dmverify.studies.recorded import recorded
from dmverify.studies.resume import RUNS
from dmverify.studies.separate import advice, behind, layers, predictions
from dmverify.studies.separate.pictures import plots
from dmverify.studies.separate.report import rows, tables
from dmverify.studies.separate.table import jobs
from dmverify.studies.study import Progress, Study, StudyResult, checked_seeds, whole
from dmverify.studies.training.job import Job
from dmverify.studies.training.setting import TINY

SITTING = 9.5  # minutes
SUMMARY = "when and why FP8 training falls behind on a small model, simulated and on real FP8"
METHOD = (
    "A byte-level model of 3 million parameters (4 layers, width 256, 2 heads of 128, no "
    "QK-normalisation, 256 tokens) on the source of Python's standard library; 32 sequences a "
    "step, AdamW at the rate that a table names after 100 steps of warm-up. A seed has the same "
    "first weights and batches in every variant, so differences are paired. Simulated FP8: the "
    "article's blocks, amax clamped at 2^-100. Attention's products are in float32; 'products' "
    "says what the linear layers are in (tf32: every product).",
    "Compiled code rounds to BF16 in integers, so that no compiler leaves a rounding out. The "
    "table of predictions says what would refute the mechanism; a verdict follows from an interval "
    "and a margin, by the rule in separate/predictions.py.",
)


def run(
    *,
    seeds: Sequence[int] | None = None,
    quick: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
    minutes: float = SITTING,
) -> StudyResult:
    """Trains what is missing, or reports what was recorded.

    Args:
        seeds: Seeds of weights and batches, for every run; else each run's own.
        quick: A tiny model and a few steps, on any machine.
        out: A directory for records, JSON, pictures and page; a second call goes on from there.
        progress: Told after each run.
        minutes: Minutes of training on a GPU; a run that they cut goes on in the next call.

    Raises:
        InputError: For seeds that are negative, repeated or none at all, and for no minutes.
        DependencyError: If torch is missing, or ``out`` is given and matplotlib is.
    """
    report = progress or (lambda line: None)
    work = jobs() if seeds is None else _with_seeds(checked_seeds(seeds, (0,)))
    _check_minutes(minutes)
    with naming_extras():
        from dmverify.studies.training.runs import on_gpu, records_of
    if quick:
        records = records_of(_small(work), out=out, progress=report)
    elif on_gpu():
        records = records_of(work, out=out, progress=report, seconds=60 * minutes)
    else:
        records = _made_before(work, out, report)
    result = result_of(records).asked(seeds=seeds, quick=quick)
    if out is not None:
        result.write(out)
    return result


def _check_minutes(minutes: float) -> None:
    if not minutes > 0:
        raise InputError(
            f"minutes={minutes}",
            rule="a sitting has minutes above 0",
            fix="pass for example --minutes 5",
        )


def _made_before(work: Sequence[Job], out: Path | None, report: Progress) -> list[dict[str, Any]]:
    """The runs of a folder, such as a GPU machine filled, or the recorded ones."""
    from dmverify.studies.training.runs import kept_records

    found = kept_records(work, out / RUNS) if out is not None else []
    if found:
        report(f"no GPU: these are the runs in {out}")
        return found
    report("no GPU: these are the recorded runs")
    runs: list[dict[str, Any]] = recorded("separate")["runs"]
    return runs


def result_of(records: Sequence[dict[str, Any]]) -> StudyResult:
    """Tables and pictures of some records; a run that was looked at once has nothing to say."""
    records = [record for record in records if len(record["points"]) > 1]
    found, tried, late = rows(records), advice.rows(records), behind.rows(records)
    said = predictions.judged(records)
    data = {
        "rows": found,
        "predictions": said,
        "advice": tried,
        "behind": late,
        "runs": records,
    }
    answers = ((advice.table_of, tried), (behind.table_of, late))
    first = (*predictions.tables_of(said), *(made(some) for made, some in answers if some))
    shown = (*first, *tables(found), layers.table_of(records))
    return StudyResult(
        "separate", SUMMARY, METHOD, data, shown, plots(records), command=whole("separate")
    )


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


STUDY = Study("separate", SUMMARY, run, takes=frozenset({"minutes"}))
