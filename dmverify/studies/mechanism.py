"""``study mechanism``: what a row sum that is not zero does to a row and to the gains of K.

A delta that is wrong by eps_i adds eps_i P_ij to dS. A descent step of length h on the logits then
changes the entropy of row i, beside what the right gradient does, by

    h eps_i sum_j P_ij^2 (log P_ij + H_i)      to first order, H_i the row's entropy.

The sum is the covariance of P and log P under P, never negative: eps < 0 sharpens every row that is
not uniform, eps > 0 flattens it. The gradient of the key gain of channel c gets, beside its own,

    sum_i eps_i q_ic sum_j P_ij k_jc           k before its gain, scaled by the softmax scale.

The study takes both from character models while they train and compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from dmverify.errors import naming_extras
from dmverify.studies.plot import Panel, Plot, Series
from dmverify.studies.resume import kept
from dmverify.studies.study import Progress, Study, StudyResult, Table, checked_seeds, whole
from dmverify.studies.training.job import Job
from dmverify.studies.training.recipe import fp8
from dmverify.studies.training.setting import CHARACTERS, TINY
from dmverify.studies.training.statistics import interval

SEEDS, STEPS, PROBE = (0, 1, 2), 800, 100
DELTAS = ("stale", "consistent", "matched")
SUMMARY = "sharpening and flattening of rows by the sign of the row sum, and the push on key gains"
METHOD = (
    "The article's character model with QK-RMSNorm, contract article, 800 steps, three seeds, "
    "looked at every 100 steps on the batch of that step. eps: what dS has too much of P, from the "
    "row sum. A step on the logits, 1e-3 over the median of sum |dS| / 2 long, is made with and "
    "without it, and the entropies, in float64, are compared with the first-order statement.",
    "Push: the share |sum over rows| / sum of |rows| of what eps adds to the gradient of a key "
    "gain, median over channels; rows with random signs would leave about 1 / sqrt(rows). Persist: "
    "the same share over the probes, of the sums.",
)


def run(
    *,
    seeds: Sequence[int] | None = None,
    quick: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Trains three variants, about three minutes of one core.

    Args:
        seeds: Seeds of weights and batches; 0, 1, 2 unless given.
        quick: A tiny model and a few steps.
        out: A directory for JSON, pictures and page; a second call goes on from there.
        progress: Told after each variant.

    Raises:
        InputError: For seeds that are negative, repeated or none at all.
        DependencyError: If torch is missing, or ``out`` is given and matplotlib is.
    """
    chosen = checked_seeds(seeds, SEEDS)
    with naming_extras():
        from dmverify.studies.training.push import observe
    runs = []
    for job in jobs(chosen, quick=quick):
        key = {"name": job.key, "width": job.setting.width}
        runs.append(kept(out, key, partial(observe, job)))
        if progress is not None:
            progress(f"{job.recipe.name}: {job.steps} steps, seeds {list(chosen)}")
    result = report(runs).asked(seeds=seeds, quick=quick)
    if out is not None:
        result.write(out)
    return result


def jobs(seeds: tuple[int, ...], *, quick: bool = False) -> list[Job]:
    """One run a delta."""
    setting = replace(TINY, qk_norm=True, corpus=CHARACTERS.corpus) if quick else CHARACTERS
    steps, probe = (4, 2) if quick else (STEPS, PROBE)
    return [Job("mechanism", setting, fp8(d), seeds, steps, "fp32", probe) for d in DELTAS]


STUDY = Study("mechanism", SUMMARY, run)


def report(runs: Sequence[dict[str, Any]]) -> StudyResult:
    """Tables and pictures; a row of a run is one step, layer and seed."""
    rows = [row for run in runs for row in run["rows"]]
    summary = [_summary(rows, delta) for delta in DELTAS]
    data = {"summary": summary, "runs": list(runs)}
    return StudyResult(
        "mechanism", SUMMARY, METHOD, data, tables(summary), plots(rows), command=whole("mechanism")
    )


def _summary(rows: Sequence[dict[str, Any]], delta: str) -> dict[str, Any]:
    """Means over steps and layers, then over seeds, with 95 % intervals."""
    mine = [row for row in rows if row["delta"] == delta]
    found: dict[str, Any] = {"delta": delta}
    for name in ("agree", "slope", "sharpened", "flattened", "push", "random", "persist", "eps"):
        by_seed = [
            fmean(row[name] for row in mine if row["seed"] == seed and row[name] is not None)
            for seed in sorted({row["seed"] for row in mine})
        ]
        over = interval(by_seed)
        found |= {name: over.mean, f"{name}_half": over.half}
    return found


def tables(summary: Sequence[dict[str, Any]]) -> tuple[Table, ...]:
    """Rows, then gains."""
    entropy = tuple(
        (
            row["delta"],
            f"{row['eps']:.1e}",
            f"{100 * row['agree']:.2f} %",
            _with(row, "slope"),
            f"{row['sharpened']:+.1e}",
            f"{row['flattened']:+.1e}",
        )
        for row in summary
    )
    gains = tuple(
        (row["delta"], _with(row, "push"), f"{row['random']:.3f}", _with(row, "persist"))
        for row in summary
    )
    return (
        Table(
            "Rows: entropy after a step, with eps minus without",
            ("delta", "median |eps| / (sum |dS| / 2)", "sign as stated", "actual / stated",
             "eps < 0 (nats)", "eps > 0 (nats)"),
            entropy,
            "Rows whose H is at least 0.01 nats below the logarithm of the keys seen.",
        ),
        Table(
            "Key gains: one-sidedness of what eps adds",
            ("delta", "push over rows", "random signs", "persist over probes"),
            gains,
            "Means over layers, probes and seeds, ± 95 %; 1 is one sign only.",
        ),
    )  # fmt: skip


def _with(row: dict[str, Any], name: str) -> str:
    half = row[f"{name}_half"]
    return f"{row[name]:.3f}" + ("" if half is None else f" ± {half:.3f}")


def plots(rows: Sequence[dict[str, Any]]) -> tuple[Plot, ...]:
    """The push over training, a layer a panel."""
    steps = sorted({row["step"] for row in rows})
    layers = sorted({row["layer"] for row in rows})
    panels = tuple(
        Panel(
            f"layer {layer + 1}",
            "|sum over rows| / sum of |rows|",
            tuple(_line(rows, delta, layer, steps) for delta in DELTAS),
        )
        for layer in layers
    )
    caption = (
        "One-sidedness over rows of what eps adds to the gradient of the key gains, mean over "
        "seeds, 95 %."
    )
    return (Plot("push", caption, "step", steps, panels, x_scale="linear"),)


def _line(rows: Sequence[dict[str, Any]], delta: str, layer: int, steps: Sequence[int]) -> Series:
    over = [
        interval(
            [
                row["push"]
                for row in rows
                if (row["delta"], row["layer"], row["step"]) == (delta, layer, step)
            ]
        )
        for step in steps
    ]
    return Series(delta, [one.mean for one in over], delta, half=[one.half for one in over])
