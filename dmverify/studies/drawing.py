"""Draws a picture as SVG, with matplotlib; ``plot.render`` is the door.

The same data gives the same file: element ids come from a fixed salt and no date is written.
"""

from __future__ import annotations

import io
import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

if TYPE_CHECKING:
    from dmverify.studies.plot import Panel, Plot

# Okabe and Ito's colours: distinct to colour-blind readers, and in grey by their lightness.
COLOURS = MappingProxyType(
    {
        "stale": "#D55E00",
        "consistent": "#E69F00",
        "matched": "#0072B2",
        "renormalized": "#56B4E9",
        "shifted": "#009E73",
        "associated": "#CC79A7",
        "plain": "#000000",
        "grey": "#7F7F7F",
    }
)
# Modes often coincide, so marks and widths nest: the large ones lie below.
_MARKS: MappingProxyType[str, dict[str, Any]] = MappingProxyType(
    {
        "stale": {"marker": "o", "markersize": 8, "linewidth": 1.6, "zorder": 1.8},
        "consistent": {"marker": "s", "markersize": 5, "linewidth": 1.6},
        "matched": {"marker": "o", "markersize": 8, "linewidth": 3.2, "zorder": 1.9},
        "renormalized": {"marker": "x", "markersize": 6, "linewidth": 1.2},
        "shifted": {"marker": "^", "markersize": 5, "linewidth": 1.2},
        "associated": {"marker": "v", "markersize": 5, "linewidth": 1.2},
        "plain": {"marker": "o", "markersize": 5, "linewidth": 1.6},
        "grey": {"marker": "s", "markersize": 6, "linewidth": 1.2},
    }
)
_LOOKS: MappingProxyType[str, dict[str, Any]] = MappingProxyType(
    {
        "measured": {"linestyle": "-"},
        "variant": {"linestyle": "-.", "markerfacecolor": "white"},
        "bound": {"linestyle": "--", "marker": "", "linewidth": 1.2},
        "published": {
            "linestyle": "",
            "marker": "D",
            "markersize": 11,
            "markerfacecolor": "none",
            "markeredgewidth": 1.2,
        },
        "dots": {"linestyle": ""},
        "hollow": {"linestyle": "", "markerfacecolor": "white"},
    }
)
"""measured, variant: lines; bound: dashed; published: a diamond; dots, hollow: no line."""


LETTERS, HANDLE = 12, 8  # of the legend's font: letters an inch, and what a sample takes of them


def drawn(plot: Plot) -> str:
    """The picture as SVG text."""
    named = any(isinstance(x, str) for x in plot.x)
    style: Any = {"svg.hashsalt": plot.name, "svg.fonttype": "none", "font.size": 10}
    with rc_context(style):
        size = (5.6 * len(plot.panels) + 0.6, 6.4 if named else 5.4)
        figure = Figure(figsize=size, layout="constrained")
        for axes, panel in zip(
            figure.subplots(1, len(plot.panels), squeeze=False)[0], plot.panels, strict=True
        ):
            _draw(axes, plot, panel, named)
            if plot.x_scale == "log" and not named:
                axes.xaxis.set_minor_locator(NullLocator())  # y keeps its own: it may need them
        marks = {
            label: handle
            for axes in figure.axes
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        longest = max(map(len, marks), default=0) + HANDLE
        figure.legend(
            marks.values(),
            marks.keys(),
            loc="outside lower center",
            ncols=max(int(size[0] * LETTERS / longest), 1),
            fontsize=9,
            frameon=False,
        )
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def _draw(axes: Any, plot: Plot, panel: Panel, named: bool) -> None:
    places = list(range(len(plot.x))) if named else list(plot.x)
    log = panel.y_scale == "log"
    for series in panel.series:
        y = [math.nan if v is None or (v <= 0 and log) else v for v in series.y]
        look = _MARKS[series.colour] | _LOOKS[series.look]
        colour = COLOURS[series.colour]
        axes.plot(places, y, color=colour, label=series.label or None, **look)
        if series.half:
            half = [0.0 if v is None else v for v in series.half]
            axes.errorbar(places, y, half, fmt="none", ecolor=colour, capsize=3)
    axes.set_yscale(panel.y_scale)
    if panel.top is not None:
        axes.set_ylim(top=panel.top)
    if named:
        axes.set_xticks(places, plot.x, rotation=60, ha="right", rotation_mode="anchor")
    elif plot.x_scale == "log":
        axes.set_xscale("log", base=2)
        axes.set_xticks(places, [f"{x:g}" for x in places])
    axes.set_xlabel(plot.x_label)
    axes.set_ylabel(panel.y_label)
    axes.set_title(panel.title, fontsize=11)
    axes.grid(True, which="major", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
