"""Figures of a first trial of this project on a model of 3 million parameters, beside ours.

Its text and code are not at hand; ours is another text, so a verdict is about what it claimed, by
the 95 % interval of the paired difference, and not about the third digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

Data = dict[str, Any]
Found = tuple[str, str, str, bool | None, str]
"""Figure, published, ours, whether it is reproduced (None: not run), and how."""
TIME = "not run to the end: GPU time; study separate has the run"
HOW = "study separate, on another text"


@dataclass(frozen=True)
class Claim:
    """One statement.

    Attributes:
        figure: In words.
        published: As the trial had it.
        label: Group of the run that tests it.
        name: Name of that run.
        rule: A name of ``RULES``.
    """

    figure: str
    published: str
    label: str
    name: str
    rule: str


KERNEL = "kernel stale, centre_k=none, normaliser=codes, store=bf16"
CLAIMS = (
    Claim("rate 1e-3, 1,200 steps, K as it is: stale loses rows", "3 of 3 seeds",
          "usual-tf32", "stale, centre_k=none", "lost"),
    Claim("the same: stale falls behind", "+0.345, +0.511, +0.054",
          "usual-tf32", "stale, centre_k=none", "more"),
    Claim("the same: consistent falls behind", "+0.144, +0.061, +0.039",
          "usual-tf32", "consistent, centre_k=none", "more"),
    Claim("the same: matched does not", "-0.004, -0.009, -0.007",
          "usual-tf32", "matched, centre_k=none", "same"),
    Claim("the same: K centred, stale does not", "+0.016, +0.017, +0.002",
          "usual-tf32", "stale", "same"),
    Claim("the same: QK-RMSNorm: nothing separates", "nothing", "usual-qk-norm",
          "stale, centre_k=none", "same"),
    Claim("5,400 steps, K centred: stale falls behind", "+0.387, +0.655", "late", "stale", "more"),
    Claim("5,400 steps: matched does not", "+0.005, +0.019",
          "late", "matched, centre_k=none", "same"),
    Claim("the bundled kernel with stale: no separation in 1,200 steps", "+0.009, -0.003, -0.005",
          "kernel", KERNEL, "same"),
    Claim("rate 1e-3: under a stale delta the mean of K grows beyond exact's", "yes",
          "usual-tf32", "stale, centre_k=none", "drift"),
    Claim("rate 4e-3: under a stale delta the mean of K grows beyond exact's", "yes, at 1e-3",
          "fast-biases", "stale, centre_k=none", "drift"),
)  # fmt: skip


def _lost(row: Data) -> tuple[str, bool]:
    return f"{row['lost']} of {row['seeds']} seeds", row["lost"] > 0


def _gap(row: Data) -> str:
    return f"{row['gap']:+.3f} ± {row['half']:.3f}"


def _more(row: Data) -> tuple[str, bool]:
    return _gap(row), row["gap"] - row["half"] > 0


def _same(row: Data) -> tuple[str, bool]:
    return _gap(row), abs(row["gap"]) <= row["half"]


def _drift(row: Data) -> tuple[str, bool]:
    low, high = (math.exp(row["drift"] + sign * row["drift_half"]) for sign in (-1, 1))
    return f"{low:.2f} to {high:.2f} times", low > 1


RULES: Mapping[str, Callable[[Data], tuple[str, bool]]] = MappingProxyType(
    {"lost": _lost, "more": _more, "same": _same, "drift": _drift}
)
"""Ours in words, and whether the claim is reproduced; intervals are 95 %."""


def beside(data: Data) -> Iterator[Found]:
    """Every claim beside the runs of ``study separate``."""
    rows = {(row["label"], row["name"]): row for row in data["rows"]}
    for claim in CLAIMS:
        row = rows.get((claim.label, claim.name))
        if row is None or not row["done"] or row.get("half") is None:
            yield claim.figure, claim.published, "", None, TIME
            continue
        ours, holds = RULES[claim.rule](row)
        how = f"{HOW}, {row['seeds']} seeds, {row['compared_at']} steps"
        yield claim.figure, claim.published, ours, holds, how
