"""Numbers as a study reports them: six significant digits, None where there is no number."""

from __future__ import annotations

import math
from typing import SupportsFloat

DIGITS = 6


def significant(x: SupportsFloat) -> float | None:
    """The number to six significant digits, None for NaN or infinity."""
    value = float(x)
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def shown(x: float | None) -> str:
    """Three digits for a table, a dash where there is no number."""
    return "-" if x is None else f"{x:.2e}"


def percent(x: float | None) -> str:
    """A share as a percentage with three digits."""
    return "-" if x is None else f"{100 * x:.3g} %"
