"""What one run is: a setting, a recipe, a precision, seeds and steps; and its record."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dmverify.studies.training.recipe import Recipe
from dmverify.studies.training.setting import Setting


@dataclass(frozen=True)
class Job:
    """One run of several seeds.

    Attributes:
        label: Its group in the study, such as ``main`` or ``late``.
        setting: The model.
        recipe: How attention computes.
        seeds: Trained side by side.
        steps: Steps of AdamW.
        precision: fp32 (every product in float32), tf32 (every product may truncate its operands
            to TF32), bf16 (linear layers in BF16, attention in float32).
        probe: Steps between two close looks.
    """

    label: str
    setting: Setting
    recipe: Recipe
    seeds: tuple[int, ...]
    steps: int
    precision: str = "bf16"
    probe: int = 100

    @property
    def key(self) -> str:
        """A file name that no other job of a study has, given the same models under a label."""
        words = (self.label, self.recipe.name, self.precision, self.model, f"{self.steps}")
        plain = "-".join(words).replace(", ", "_").replace(" ", "-").replace("=", ".")
        return f"{plain}-seeds-{'-'.join(map(str, self.seeds))}"

    @property
    def model(self) -> str:
        """What the model has beside the plainest, in words."""
        of = self.setting
        extra = {"qk-norm": of.qk_norm, "biases": of.biases, of.first: of.first != "small"}
        return "+".join([word for word, has in extra.items() if has] or ["plain"])

    def describe(self) -> dict[str, Any]:
        """Plain data for a record."""
        return {
            "label": self.label,
            "name": self.recipe.name,
            "recipe": asdict(self.recipe),
            "model": self.model,
            "setting": asdict(self.setting),
            "seeds": list(self.seeds),
            "steps": self.steps,
            "precision": self.precision,
        }
