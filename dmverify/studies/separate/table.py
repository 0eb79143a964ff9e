"""The runs of the study, most important first, as data.

| group | model and rate | asks |
|---|---|---|
| fast-biases | biases of q, k, v; 4e-3 | what separates, eight seeds |
| act | the same | is it the push on K? |
| kernel-fast-biases | the same | does real FP8 do it? |
| late-fast | the same, 5,400 steps | for how long is a remedy one? |
| factor, factor-... | the same | QK-norm, weight decay, other words |
| usual-..., late, kernel | torch's first weights, biases; 1e-3 | does it hang on TF32? |
| small-... | no biases, small first weights; 1e-3 | do the first weights matter there? |

Every run of a group is compared with exact attention on the same model over the same seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType

from dmverify.studies.training.job import Job
from dmverify.studies.training.recipe import BF16, EXACT, Recipe, fp8, kernel
from dmverify.studies.training.setting import BYTES, Setting

EIGHT, THREE = tuple(range(8)), tuple(range(3))
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
        "factor": "Rate 4e-3, biases: one thing changed, simulated",
        "factor-qk-norm": "Rate 4e-3, biases, QK-RMSNorm",
        "factor-no-decay": "Rate 4e-3, biases, no weight decay",
        "usual-tf32": "Rate 1e-3, biases, torch's first weights, every product in TF32",
        "usual-fp32": "The same, every product in float32",
        "usual-qk-norm": "Rate 1e-3, every product in TF32, QK-RMSNorm",
        "late": "Rate 1e-3, every product in TF32, 5,400 steps",
        "small-tf32": "Rate 1e-3, no biases, small first weights, every product in TF32",
        "small-fp32": "The same without biases, every product in float32",
        "kernel": "Rate 1e-3, real FP8",
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
        precision: Precision of the linear layers.
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
    both = replace(setting, biases=True, rate=FAST)
    fast, act = Group("fast-biases", both), Group("act", both)
    real, late = Group("kernel-fast-biases", both), Group("late-fast", both, THREE, LONG)
    return (
        *fast.runs(EXACT, STALE),
        *act.runs(STALE.but(act="project")),
        *fast.runs(MATCHED),
        *act.runs(MATCHED.but(act="stale-dq"), MATCHED.but(act="stale-dk")),
        *real.runs(kernel("stale", **KEPT), kernel("matched", **KEPT)),
        *fast.runs(CENTRED),
        *act.runs(STALE.but(act="freeze")),
        *fast.runs(CODES, CONSISTENT),
        *real.runs(kernel("stale"), kernel("matched")),
        *act.runs(STALE.but(act="alternate"), MATCHED.but(act="inject")),
        *late.runs(kernel("stale"), MATCHED, EXACT, STALE),
        *_usual(setting),
        *_factors(both),
        *act.runs(EXACT.but(act="inject", **KEPT)),
        *late.runs(kernel("matched"), CENTRED),
        *_undecayed(both),
        *_usual_late(setting),
        *_small(setting),
        *Group("factor", both).runs(STALE.but(store="bf16"), MATCHED.but(ds_cast="zero-sum"), BF16),
        *real.runs(kernel("stale", **KEPT, act="project")),
    )


def _factors(both: Setting) -> Iterator[Job]:
    """One thing changed at the higher rate."""
    yield from Group("factor-qk-norm", replace(both, qk_norm=True)).runs(EXACT, STALE, MATCHED)
    yield from Group("factor", both).runs(ASSOCIATED)


def _undecayed(both: Setting) -> Iterator[Job]:
    """Without weight decay a stale delta is far behind in most seeds: remedies, interventions."""
    yield from Group("factor-no-decay", replace(both, decay=0.0)).runs(
        *(EXACT, STALE, MATCHED),
        *(STALE.but(act="project"), MATCHED.but(act="inject"), STALE.but(act="alternate")),
        *(kernel("stale", **KEPT), kernel("matched", **KEPT)),
        *(CENTRED, CONSISTENT, STALE.but(act="freeze"), ASSOCIATED),
        *(MATCHED.but(act="stale-dq"), MATCHED.but(act="stale-dk"), CODES, kernel("stale")),
    )


def _usual(setting: Setting) -> Iterator[Job]:
    """The usual rate, with TF32 products and without."""
    for precision in ("tf32", "fp32"):
        group = Group(f"usual-{precision}", _torchs(setting), THREE, precision=precision)
        yield from group.runs(STALE, EXACT, MATCHED)


def _usual_late(setting: Setting) -> Iterator[Job]:
    """More of the usual rate: for longer, with QK-norm, other remedies, real FP8."""
    usual = _torchs(setting)
    yield from Group("late", usual, THREE, LONG, "tf32").runs(EXACT, CENTRED, MATCHED)
    yield from Group("usual-tf32", usual, THREE, precision="tf32").runs(CONSISTENT, CENTRED)
    normed = Group("usual-qk-norm", replace(usual, qk_norm=True), THREE, precision="tf32")
    yield from normed.runs(EXACT, STALE)
    yield from Group("kernel", usual, THREE).runs(EXACT, kernel("stale", **KEPT))


def _torchs(setting: Setting) -> Setting:
    """What the plainest code in torch makes: its first weights, and biases."""
    return replace(setting, biases=True, first="torch")


def _small(setting: Setting) -> Iterator[Job]:
    """The usual rate from small first weights, without biases."""
    for precision in ("tf32", "fp32"):
        group = Group(f"small-{precision}", setting, THREE, precision=precision)
        yield from group.runs(STALE, EXACT, MATCHED)
