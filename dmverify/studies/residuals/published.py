"""The article's figures, as data, and what counts as reproducing them.

Source: "Delta-Matching" (2026-10-30), its residual table and the sentences around it; figures only.
Tolerances are relative: 5 %; 25 % where the figure is fp32 round-off, which depends on the order of
summation; 10 % for the outlier set, which the article gives as a range.

| figure | how it is read |
|---|---|
| O and dQ error | of the matched mode (one column there; dQ of stale is 5 to 9 % larger) |
| a range over the spreads | its lower end at spread 1, its upper end at spread 4 |
| colsum | all channels together (``measures``); "about 1e-3" of consistent is spread 2 |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

USUAL, ROUND_OFF, OUTLIER = 0.05, 0.25, 0.10

Key = tuple[str, float, str, str]
"""(inputs, spread, delta, measure)."""


def _gaussian() -> Iterator[tuple[Key, tuple[float, float]]]:
    columns = (
        ("stale", "residual", (3.1e-3, 6.4e-3, 1.8e-2), USUAL),
        ("consistent", "residual", (1.9e-3, 2.6e-3, 3.6e-3), USUAL),
        ("matched", "residual", (1.3e-8, 2.4e-8, 6.1e-8), ROUND_OFF),
        ("matched", "o_error", (4.6e-2, 6.4e-2, 8.1e-2), USUAL),
        ("matched", "dq_error", (6.3e-2, 7.9e-2, 11.5e-2), USUAL),
        ("matched", "residual_cast", (2.3e-3, 4.3e-3, 8.1e-3), USUAL),
    )
    for delta, measure, figures, tolerance in columns:
        for spread, figure in zip((1.0, 2.0, 4.0), figures, strict=True):
            yield ("gaussian", spread, delta, measure), (figure, tolerance)


PUBLISHED: MappingProxyType[Key, tuple[float, float]] = MappingProxyType(
    {
        **dict(_gaussian()),
        ("gaussian", 1.0, "stale", "colsum"): (2.4e-3, USUAL),
        ("gaussian", 4.0, "stale", "colsum"): (3.5e-3, USUAL),
        ("gaussian", 2.0, "consistent", "colsum"): (1e-3, USUAL),
        ("gaussian", 1.0, "matched", "colsum"): (2e-8, ROUND_OFF),
        ("outlier", 1.0, "stale", "residual"): (3.0e-3, OUTLIER),
        ("outlier", 4.0, "stale", "residual"): (1.6e-2, OUTLIER),
    }
)
"""Figure and tolerance of every measure of a row that the article states."""

RATIOS: MappingProxyType[tuple[float, str], tuple[float, float]] = MappingProxyType(
    {
        (1.0, "stale"): (1.7, USUAL),
        (4.0, "stale"): (2.5, USUAL),
        (1.0, "consistent"): (1.3, USUAL),
        (2.0, "consistent"): (1.2, USUAL),
    }
)
"""residual_cast of a mode over that of matched, gaussian, by (spread, mode).

The article says 1.7 to 2.5 and 1.2 to 1.3 over the spreads; the second range falls, then flattens.
The 2.5 is not reproduced: 2.67 with six seeds, 2.64 with 36.
"""


@dataclass(frozen=True)
class Comparison:
    """One figure of the article beside ours.

    Attributes:
        figure: Which one, in words.
        ours: Measured here.
        published: As printed.
        tolerance: Relative.
    """

    figure: str
    ours: float
    published: float
    tolerance: float

    @property
    def ratio(self) -> float:
        """ours / published."""
        return self.ours / self.published

    @property
    def within(self) -> bool:
        """Whether the two differ by at most the tolerance, relative to the published figure."""
        return abs(self.ratio - 1) <= self.tolerance

    def to_json(self) -> dict[str, Any]:
        """Every field, for scripts."""
        return {
            "figure": self.figure,
            "ours": self.ours,
            "published": self.published,
            "ratio": float(f"{self.ratio:.4g}"),
            "tolerance": self.tolerance,
            "within": self.within,
        }


def published_of(inputs: str, spread: float, delta: str) -> dict[str, float]:
    """The article's figures of one row, by measure."""
    return {
        key[3]: figure
        for key, (figure, _) in PUBLISHED.items()
        if key[:3] == (inputs, spread, delta)
    }


def compare(rows: Mapping[tuple[str, float, str], Mapping[str, Any]]) -> tuple[Comparison, ...]:
    """Every published figure whose row was run.

    Args:
        rows: The study's main rows by (inputs, spread, delta).
    """
    table = [
        Comparison(
            f"{measure}, {delta}, {inputs}, spread {spread:g}",
            rows[inputs, spread, delta][measure],
            figure,
            tolerance,
        )
        for (inputs, spread, delta, measure), (figure, tolerance) in PUBLISHED.items()
        if (inputs, spread, delta) in rows
    ]
    for (spread, delta), (figure, tolerance) in RATIOS.items():
        pair = [rows.get(("gaussian", spread, mode)) for mode in (delta, "matched")]
        if pair[0] is not None and pair[1] is not None:
            ratio = pair[0]["residual_cast"] / pair[1]["residual_cast"]
            name = f"residual_cast, {delta} / matched, gaussian, spread {spread:g}"
            table.append(Comparison(name, float(f"{ratio:.4g}"), figure, tolerance))
    return tuple(table)
