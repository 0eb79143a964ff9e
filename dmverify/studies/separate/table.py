"""The runs of the study, most important first, as data."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from dmverify.studies.training.job import Job
from dmverify.studies.training.recipe import BF16, EXACT, Recipe, fp8, kernel
from dmverify.studies.training.setting import BYTES, Setting

EIGHT, FOUR, THREE, TWO = (tuple(range(n)) for n in (8, 4, 3, 2))
SHORT, LONG = 1200, 5400
PLAIN = {"centre_k": "none"}
FAST = 4e-3  # learning rate

TITLES: MappingProxyType[str, str] = MappingProxyType(
    {
        "fast-biases": "Rate 4e-3, biases of q, k and v, simulated",
        "act": "Interventions in that setting",
        "kernel-fast-biases": "Real FP8 by the bundled kernel in that setting",
        "fast": "Rate 4e-3, no biases, simulated",
        "late-biases": "Rate 1e-3, 5,400 steps, biases of q, k and v, simulated",
        "explore": "Rate 1e-3: does it hang on the model? Biases, torch's first weights",
        "precision": "Rate 1e-3: does it hang on the products? float32, or TF32",
        "main": "Rate 1e-3, eight seeds, simulated",
        "late": "Rate 1e-3, 5,400 steps, simulated",
        "kernel": "Rate 1e-3, real FP8",
        "factor": "Rate 4e-3, biases: one thing changed, simulated",
        "factor-qk-norm": "Rate 4e-3, biases, QK-RMSNorm",
        "factor-no-decay": "Rate 4e-3, biases, no weight decay",
    }
)
"""What every group of runs asks."""


def jobs(setting: Setting = BYTES) -> tuple[Job, ...]:
    """Every run, in the order in which time is spent on them."""
    biased, fast = replace(setting, biases=True), replace(setting, rate=FAST)
    both = replace(biased, rate=FAST)
    torchs, all_of_it = (replace(of, first="torch") for of in (setting, biased))
    stale, matched = fp8("stale", **PLAIN), fp8("matched", **PLAIN)

    def row(
        label: str, recipe: Recipe, seeds: tuple[int, ...], of: Setting,
        steps: int = SHORT, precision: str = "bf16",
    ) -> Job:  # fmt: skip
        return Job(label, of, recipe, seeds, steps, precision, probe=200 if steps == SHORT else 300)

    def factor(recipe: Recipe, label: str = "factor", of: Setting = both) -> Job:
        return row(label, recipe, THREE, of)

    return (
        row("fast-biases", stale, THREE, both),
        row("fast-biases", EXACT, THREE, both),
        row("fast-biases", matched, THREE, both),
        row("kernel-fast-biases", kernel("stale"), THREE, both),
        row("act", stale.but(act="project"), THREE, both),
        row("act", matched.but(act="inject"), THREE, both),
        row("fast", stale, THREE, fast),
        row("fast", EXACT, THREE, fast),
        row("late-biases", stale, THREE, biased, LONG),
        row("late-biases", EXACT, THREE, biased, LONG),
        row("precision", stale, FOUR, setting, precision="fp32"),
        row("explore", stale, TWO, setting, precision="tf32"),
        row("explore", stale, TWO, torchs, precision="fp32"),
        row("explore", stale, TWO, biased, precision="fp32"),
        row("explore", stale, TWO, all_of_it, precision="fp32"),
        row("explore", stale, TWO, all_of_it, precision="tf32"),
        row("fast-biases", fp8("consistent", **PLAIN), THREE, both),
        row("fast-biases", fp8("stale"), THREE, both),
        row("fast-biases", fp8("matched"), THREE, both),
        row("kernel-fast-biases", kernel("matched"), THREE, both),
        row("kernel-fast-biases", kernel("stale", **PLAIN), THREE, both),
        row("act", stale.but(act="freeze"), THREE, both),
        row("act", EXACT.but(act="inject", **PLAIN), THREE, both),
        *(row("main", recipe, EIGHT, setting) for recipe in (EXACT, stale, matched)),
        *(row("main", fp8(delta), EIGHT, setting) for delta in ("stale", "matched")),
        row("main", fp8("consistent", **PLAIN), EIGHT, setting),
        row("precision", EXACT, FOUR, setting, precision="fp32"),
        row("precision", stale, FOUR, setting, precision="tf32"),
        row("precision", EXACT, FOUR, setting, precision="tf32"),
        *(row("late", recipe, THREE, setting, LONG) for recipe in (fp8("stale"), EXACT)),
        row("late", fp8("matched"), THREE, setting, LONG),
        *(row("kernel", kernel(delta), EIGHT, setting) for delta in ("stale", "matched")),
        factor(stale.but(store="bf16")),
        factor(stale.but(normaliser="codes")),
        factor(fp8("associated", normaliser="codes", **PLAIN)),
        factor(matched.but(ds_cast="zero-sum")),
        factor(BF16),
        factor(stale, "factor-qk-norm", replace(both, qk_norm=True)),
        factor(EXACT, "factor-qk-norm", replace(both, qk_norm=True)),
        factor(stale, "factor-no-decay", replace(both, decay=0.0)),
        factor(EXACT, "factor-no-decay", replace(both, decay=0.0)),
    )
