"""What a record of a run says: last values, medians, curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from dmverify.studies.training.statistics import Paired, interval

Record = dict[str, Any]


def last(record: Record) -> list[float]:
    """Validation cross-entropy at the last point, a seed; infinity for a run that died."""
    return [math.inf if x is None else x for x in record["points"][-1]["validation"]]


def over_training(record: Record, name: str) -> list[float]:
    """A measure, a seed: the median over probes after the first and over layers."""
    points = record["points"][1:] or record["points"]
    found = [
        [layer[name][i] for point in points for layer in point["layers"] if name in layer]
        for i in range(len(record["seeds"]))
    ]
    return [median(x for x in one if x is not None) for one in found]


def largest(record: Record, name: str) -> list[float]:
    """A measure, a seed: the largest of the layers at the last point."""
    layers = record["points"][-1]["layers"]
    return [
        max((layer[name][i] for layer in layers if layer[name][i] is not None), default=math.inf)
        for i in range(len(record["seeds"]))
    ]


def curve(record: Record, name: str, layer: int) -> tuple[list[int], list[Paired]]:
    """Steps, and a layer's measure there: mean over seeds and interval."""
    steps, values = [], []
    for point in record["points"]:
        numbers = [x for x in point["layers"][layer].get(name, []) if x is not None]
        if numbers:
            steps.append(point["step"])
            values.append(interval(numbers))
    return steps, values


def key_of(records: Sequence[Record], **words: Any) -> Record | None:
    """The first record whose fields are the given ones."""
    return next((r for r in records if all(r[k] == v for k, v in words.items())), None)
