"""``study ablations``: what else could be changed, and what it does to residuals and accuracy.

On the article's toy heads, and in the training of the article's character model. How the same
changes fare in the setting that separates is in ``study separate``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

from dmverify.cores import usable_cores
from dmverify.errors import naming_extras
from dmverify.studies.plot import Panel, Plot, Series
from dmverify.studies.resume import kept
from dmverify.studies.rounding import percent, shown
from dmverify.studies.study import Progress, Study, StudyResult, Table, checked_seeds, whole
from dmverify.studies.toy_heads import toy_heads
from dmverify.studies.training.job import Job
from dmverify.studies.training.read import last, over_training
from dmverify.studies.training.recipe import EXACT, Recipe, fp8
from dmverify.studies.training.setting import CHARACTERS, TINY
from dmverify.studies.training.statistics import paired

SEEDS, STEPS, PROBE = (0, 1, 2), 600, 100
SPREADS = (1.0, 2.0, 4.0, 8.0)
SUMMARY = "dP in BF16, max-shift P, compensated delta, E5M2 dS, MX blocks, one scale a head"
METHOD = (
    "Toy heads: as in study residuals (4 heads, 512 tokens, 64 channels, causal). Residual: |row "
    "sum of dS| / sum |dS|, median over rows; errors: Frobenius norm against float64 attention on "
    "the BF16 inputs. Medians over three seeds.",
    "Training: the article's character model, 600 steps, three seeds, differences paired with the "
    "exact run.",
    "MX: blocks of 32 along the contraction with power-of-two scales for Q, K, V, dO, P and dS, "
    "here each operand in one orientation, so that dK and dV read the blocks of the row pass.",
)
CHANGES: dict[str, Recipe] = {
    "stale": fp8("stale"),
    "matched": fp8("matched"),
    "dP in BF16": fp8("stale", dp="bf16"),
    "dP in BF16, matched": fp8("matched", dp="bf16"),
    "max-shift P": fp8("stale", p_cast="max-shift"),
    "max-shift P, matched": fp8("matched", p_cast="max-shift"),
    "normalised by codes": fp8("stale", normaliser="codes"),
    "compensated delta": fp8("compensated"),
    "E5M2 dS": fp8("matched", ds_format="e5m2"),
    "dS not cast": fp8("matched", ds_cast="none"),
    "stochastic dS": fp8("matched", ds_cast="stochastic"),
    "zero-sum dS": fp8("matched", ds_cast="zero-sum"),
    "MX blocks": fp8("matched", blocks="mx"),
    "MX blocks, stale": fp8("stale", blocks="mx"),
    "one scale a head": fp8("matched", blocks="head"),
    "one scale a head, stale": fp8("stale", blocks="head"),
}
TRAINED = ("stale", "matched", "dP in BF16", "max-shift P", "E5M2 dS", "MX blocks, stale")


def run(
    *,
    seeds: Sequence[int] | None = None,
    quick: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Measures every change and trains some, side by side on a CPU.

    Args:
        seeds: Seeds of toy heads, weights and batches; 0, 1, 2 unless given.
        quick: Two spreads, and a tiny model for a few steps.
        out: A directory for records, JSON, pictures and page; a second call goes on from there.
        progress: Told after each spread and each training run.

    Raises:
        InputError: For seeds that are negative, repeated or none at all.
        DependencyError: If torch is missing, or ``out`` is given and matplotlib is.
    """
    chosen = checked_seeds(seeds, SEEDS)
    tell = progress or (lambda line: None)
    with naming_extras():
        from dmverify.studies.training.runs import records_of
    rows = []
    for spread in SPREADS[:2] if quick else SPREADS:
        used = chosen[:1] if quick else chosen
        key = {"study": "toy-heads", "spread": spread, "seeds": list(used)}
        rows += kept(out, key, partial(at_spread, spread, used))
        tell(f"toy heads, spread {spread:g}: {len(CHANGES)} changes")
    records = records_of(
        jobs(chosen, quick=quick), out=out, progress=tell, processes=1 if quick else usable_cores()
    )
    result = report(rows, records).asked(seeds=seeds, quick=quick)
    if out is not None:
        result.write(out)
    return result


def jobs(seeds: tuple[int, ...], *, quick: bool = False) -> list[Job]:
    """The training runs."""
    setting = replace(TINY, qk_norm=True, corpus=CHARACTERS.corpus) if quick else CHARACTERS
    steps, probe = (4, 2) if quick else (STEPS, PROBE)
    recipes = [EXACT, *(CHANGES[name] for name in TRAINED)]
    return [Job("ablations", setting, recipe, seeds, steps, "fp32", probe) for recipe in recipes]


STUDY = Study("ablations", SUMMARY, run)


def at_spread(spread: float, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """A row a change: medians over seeds."""
    from dmverify.studies.training.heads import measure, of_inputs, truth

    found: dict[str, list[dict[str, float | None]]] = {name: [] for name in CHANGES}
    for seed in seeds:
        tensors = of_inputs(toy_heads("gaussian", spread, seed=seed))
        exact = truth(tensors)
        for name, recipe in CHANGES.items():
            found[name].append(measure(recipe, tensors, exact))
    return [
        {"change": name, "spread": spread, "recipe": CHANGES[name].name, **_medians(runs)}
        for name, runs in found.items()
    ]


def _medians(runs: Sequence[dict[str, float | None]]) -> dict[str, float | None]:
    whole = {key: [one for run in runs if (one := run[key]) is not None] for key in runs[0]}
    return {key: median(values) if values else None for key, values in whole.items()}


def report(rows: Sequence[dict[str, Any]], records: Sequence[dict[str, Any]]) -> StudyResult:
    """Tables and pictures."""
    trained = [_trained(record, records[0]) for record in records]
    data = {"rows": list(rows), "trained": trained, "runs": list(records)}
    made = (_heads(rows), _training(trained))
    return StudyResult(
        "ablations", SUMMARY, METHOD, data, made, _plots(rows), command=whole("ablations")
    )


def _trained(record: dict[str, Any], exact: dict[str, Any]) -> dict[str, Any]:
    names = {recipe.name: change for change, recipe in CHANGES.items()}
    gap = paired(last(record), last(exact))
    row = {"change": names.get(record["name"], record["name"]), "name": record["name"]}
    row |= {"validation": fmean(last(record)), "gap": gap.mean, "half": gap.half}
    for name in ("residual", "residual_cast"):
        row[name] = median(over_training(record, name))
    return row


def _heads(rows: Sequence[dict[str, Any]]) -> Table:
    columns = (
        "spread, change", "residual", "after cast", "column sums", "O error", "dQ error",
        "dK error", "dV error",
    )  # fmt: skip
    return Table(
        "Toy heads",
        columns,
        tuple(
            (
                f"{row['spread']:g}, {row['change']}",
                *(shown(row[name]) for name in ("residual", "residual_cast", "column_cast")),
                *(percent(row[name]) for name in ("o_error", "dq_error", "dk_error", "dv_error")),
            )
            for row in rows
        ),
    )


def _training(trained: Sequence[dict[str, Any]]) -> Table:
    return Table(
        "The character model",
        ("change", "validation", "minus exact", "residual", "after cast"),
        tuple(
            (
                row["change"],
                f"{row['validation']:.4f}",
                f"{row['gap']:+.4f}" + ("" if row["half"] is None else f" ± {row['half']:.4f}"),
                shown(row["residual"]),
                shown(row["residual_cast"]),
            )
            for row in trained
        ),
        "Nats, mean over seeds; differences seed by seed, ± 95 %.",
    )


def _plots(rows: Sequence[dict[str, Any]]) -> tuple[Plot, ...]:
    """Residual after the cast and dQ error, every change at the lowest and highest spread."""
    spreads = sorted({row["spread"] for row in rows})
    names = list(dict.fromkeys(row["change"] for row in rows))
    by = {(row["change"], row["spread"]): row for row in rows}
    panels = tuple(
        Panel(
            title,
            label,
            tuple(
                Series(f"spread {s:g}", [by[n, s][key] for n in names], colour, "dots")
                for s, colour in zip((spreads[0], spreads[-1]), ("matched", "stale"), strict=True)
            ),
        )
        for title, label, key in (
            ("residual after the cast", "|row sum of dS| / sum of |dS|", "residual_cast"),
            ("error of dQ", "relative, Frobenius norm", "dq_error"),
        )
    )
    return (Plot("changes", "Every change on the toy heads.", "change", names, panels),)
