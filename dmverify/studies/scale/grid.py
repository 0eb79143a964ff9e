"""Where the study looks: one thing varied at a time, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dmverify.conformance.families.draws import Draws
from dmverify.conformance.families.tensors import as_inputs, gaussian
from dmverify.spec.case import Inputs
from dmverify.spec.problem import Problem

QUERIES = 256  # the last ones; every row sees nearly all keys


@dataclass(frozen=True)
class Place:
    """One set of inputs.

    Attributes:
        keys: N.
        head_dim: D.
        spread: Factor of q, hence of the logits.
        k_offset: Added to every key, in standard deviations.
        v_offset: Added to every value.
        heads: Heads of the call.
    """

    keys: int = 2048
    head_dim: int = 64
    spread: float = 2.0
    k_offset: float = 0.0
    v_offset: float = 0.0
    heads: int = 1

    def problem(self) -> Problem:
        """The last queries of causal heads."""
        return Problem(
            batch=1, heads=self.heads, kv_heads=self.heads,
            queries=min(QUERIES, self.keys), keys=self.keys, head_dim=self.head_dim,
        )  # fmt: skip

    def inputs(self, seed: int) -> Inputs:
        """Standard normal numbers, changed as the place says."""
        problem = self.problem()
        tensors = gaussian(Draws("scale", seed), problem)
        changed = {
            "q": tensors["q"] * self.spread,
            "k": tensors["k"] + self.k_offset,
            "v": tensors["v"] + self.v_offset,
        }
        return as_inputs(tensors | changed)


AXES: dict[str, tuple[float, ...]] = {
    "keys": (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536),
    "head_dim": (32, 64, 128, 256),
    "spread": (1, 2, 4, 8, 16, 32, 64),
    "k_offset": (0, 1, 4, 16, 64, 256),
    "v_offset": (0, 1, 4, 16, 64),
    "heads": (1, 4, 16),
}
LABELS: dict[str, str] = {
    "keys": "keys, N",
    "head_dim": "channels of a head, D",
    "spread": "logit spread (factor of q)",
    "k_offset": "offset of K, in standard deviations",
    "v_offset": "offset of V, in standard deviations",
    "heads": "heads",
}
INTEGERS = frozenset(("keys", "head_dim", "heads"))


def places(*, quick: bool = False) -> Iterator[tuple[str, float, Place]]:
    """Axis, value and place; ``quick`` takes two of an axis, and fewer keys."""
    base = Place(keys=256) if quick else Place()
    for axis, values in AXES.items():
        for value in values[:2] if quick else values:
            changed: dict[str, Any] = {axis: int(value) if axis in INTEGERS else float(value)}
            yield axis, value, replace(base, **changed)
