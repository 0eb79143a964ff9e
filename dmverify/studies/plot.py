"""Pictures as data, and the door to what draws them, which needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmverify.errors import naming_extras

Number = float | None


@dataclass(frozen=True)
class Series:
    """One line or set of marks.

    Attributes:
        label: For the legend; empty leaves it out.
        y: Values; None where there is none. Values that are not positive are left out.
        colour: A name of ``drawing.COLOURS``.
        look: measured, variant, bound, published, dots or hollow.
        half: Half the height of each error bar, or nothing.
    """

    label: str
    y: Sequence[Number]
    colour: str
    look: str = "measured"
    half: Sequence[Number] = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: What this panel shows.
        y_label: With the unit, or "relative to ..." where there is none.
        series: What is drawn, later ones over earlier ones.
        top: Upper end of the y axis, or None to show all.
        y_scale: log, or linear.
    """

    title: str
    y_label: str
    series: tuple[Series, ...]
    top: float | None = None
    y_scale: str = "log"


@dataclass(frozen=True)
class Plot:
    """One picture: panels over a common x axis.

    Attributes:
        name: Name of its file.
        caption: One or two sentences under it.
        x_label: With the unit, or what it counts.
        x: Numbers, or names (one place each).
        panels: Side by side.
        x_scale: log (to base 2), or linear; of numbers.
    """

    name: str
    caption: str
    x_label: str
    x: Sequence[float] | Sequence[str]
    panels: tuple[Panel, ...]
    x_scale: str = "log"


def render(plot: Plot) -> str:
    """The picture as SVG text.

    Raises:
        DependencyError: If matplotlib is not installed.
    """
    with naming_extras():
        from dmverify.studies.drawing import drawn
    return drawn(plot)
