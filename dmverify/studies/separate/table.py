"""The runs of the study, most important first, as data.

| group | model and rate | asks |
|---|---|---|
| fast-biases | biases of q, k, v; 4e-3 | what separates, eight seeds |
| act | the same | is it the push on K? |
| kernel-fast-biases | the same | does real FP8 do it? |
| late-fast | the same, 5,400 steps | for how long is a remedy one? |
| factor, factor-... | the same | QK-norm, weight decay, other words |
| main, late, kernel, precision, explore | no biases; 1e-3 | the usual rate |

Every run of a group is compared with exact attention on the same model over the same seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType

from dmverify.studies.training.job import Job
from dmverify.studies.training.recipe import BF16, EXACT, Recipe, fp8, kernel
from dmverify.studies.training.setting import BYTES, Setting

EIGHT, FOUR, THREE, TWO = (tuple(range(n)) for n in (8, 4, 3, 2))
SHORT, LONG = 1200, 5400
KEPT = {"centre_k": "none"}  # K keeps its mean
FAST = 4e-3  # learning rate
STALE, MATCHED, CONSISTENT = (fp8(delta, **KEPT) for delta in ("stale", "matched", "consistent"))
CENTRED = fp8("stale")
CODES = STALE.but(normaliser="codes")
ASSOCIATED = fp8("associated", normaliser="codes", **KEPT)
SIX = (EXACT, STALE, MATCHED, CONSISTENT, CENTRED, CODES)
"""The variants that matter: exact, each delta with K as it is, and either remedy but for delta."""

TITLES: MappingProxyType[str, str] = MappingProxyType(
    {
        "fast-biases": "Rate 4e-3, biases of q, k and v, simulated",
        "act": "Interventions in that setting",
        "kernel-fast-biases": "Real FP8 by the bundled kernel in that setting",
        "late-fast": "The same for 5,400 steps",
        "fast": "Rate 4e-3, no biases, simulated",
        "factor": "Rate 4e-3, biases: one thing changed, simulated",
        "factor-qk-norm": "Rate 4e-3, biases, QK-RMSNorm",
        "factor-no-decay": "Rate 4e-3, biases, no weight decay",
        "main": "Rate 1e-3, eight seeds, simulated",
        "main-qk-norm": "Rate 1e-3, QK-RMSNorm",
        "kernel": "Rate 1e-3, real FP8",
        "late": "Rate 1e-3, 5,400 steps, simulated",
        "precision": "Rate 1e-3: does it hang on the products? float32, or TF32",
        "explore": "Rate 1e-3, torch's first weights",
    }
)
"""What every group of runs asks, in the order of a report."""


@dataclass(frozen=True)
class Group:
    """Runs that differ in their recipe alone.

    Attributes:
        label: A name of ``TITLES``.
        setting: Their model.
        seeds: Of each.
        steps: Of each.
        precision: Of the linear layers.
    """

    label: str
    setting: Setting
    seeds: tuple[int, ...] = EIGHT
    steps: int = SHORT
    precision: str = "bf16"

    def runs(self, *recipes: Recipe) -> Iterator[Job]:
        """One run a recipe."""
        probe = 200 if self.steps == SHORT else 300
        for recipe in recipes:
            yield Job(
                self.label, self.setting, recipe, self.seeds, self.steps, self.precision, probe
            )


def jobs(setting: Setting = BYTES) -> tuple[Job, ...]:
    """Every run, in the order in which time is spent on them."""
    biased = replace(setting, biases=True)
    both = replace(biased, rate=FAST)
    main, fast, act = Group("main", setting), Group("fast-biases", both), Group("act", both)
    real, real_fast = Group("kernel", setting), Group("kernel-fast-biases", both)
    late, late_fast = Group("late", setting, THREE, LONG), Group("late-fast", both, THREE, LONG)
    return (
        *fast.runs(EXACT, STALE),
        *act.runs(STALE.but(act="project")),
        *fast.runs(MATCHED),
        *act.runs(MATCHED.but(act="stale-dq"), MATCHED.but(act="stale-dk")),
        *real_fast.runs(kernel("stale", **KEPT), kernel("matched", **KEPT)),
        *fast.runs(CENTRED),
        *act.runs(STALE.but(act="freeze")),
        *fast.runs(CODES, CONSISTENT),
        *real_fast.runs(kernel("stale"), kernel("matched")),
        *act.runs(STALE.but(act="alternate"), MATCHED.but(act="inject")),
        *late_fast.runs(kernel("stale"), EXACT, CENTRED, MATCHED),
        *main.runs(EXACT, STALE),
        *late.runs(EXACT, CENTRED),
        *act.runs(EXACT.but(act="inject", **KEPT)),
        *_factors(both),
        *real_fast.runs(kernel("stale", **KEPT, act="project")),
        *late_fast.runs(STALE),
        *late.runs(MATCHED),
        *real.runs(kernel("stale", **KEPT)),
        *main.runs(MATCHED, CENTRED, CONSISTENT),
        *Group("fast", replace(setting, rate=FAST), THREE).runs(EXACT, STALE),
        *_precisions(setting),
    )


def _factors(both: Setting) -> Iterator[Job]:
    """One thing changed at the higher rate."""
    usual = replace(both, biases=False, rate=1e-3, qk_norm=True)
    yield from Group("main-qk-norm", usual, THREE).runs(EXACT, STALE)
    for label, model in (
        ("factor-qk-norm", replace(both, qk_norm=True)),
        ("factor-no-decay", replace(both, decay=0.0)),
    ):
        yield from Group(label, model, THREE).runs(EXACT, STALE, MATCHED)
    yield from Group("factor", both, THREE).runs(
        ASSOCIATED, STALE.but(store="bf16"), MATCHED.but(ds_cast="zero-sum"), BF16
    )


def _precisions(plain: Setting) -> Iterator[Job]:
    """Other products than the usual at 1e-3, and torch's first weights."""
    for precision in ("fp32", "tf32"):
        yield from Group("precision", plain, FOUR, precision=precision).runs(STALE, EXACT)
    torchs = replace(plain, first="torch")
    yield from Group("explore", torchs, TWO, precision="fp32").runs(STALE, EXACT)
