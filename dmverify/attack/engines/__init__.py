"""The engines, one table, and the order in which an attempt uses them.

| engine | does | needs |
|---|---|---|
| random | draws N(0, 1), or anywhere in the box | |
| family | draws a family with 24 parameters | |
| cma | CMA on that family | the package cma |
| gradient | Adam through the roundings, from new draws | the simulation |
| ascent | the same from the best | the simulation |
| align | moves inputs to the near side of ties, so that rounding errors agree in sign | |
| corners | moves inputs inside their rounding cells | |
| rows | searches every row of the output by itself, all at once | |
| hill | changes a few elements at a time | |
"""

from __future__ import annotations

from types import MappingProxyType

from dmverify.attack.engines.align import align
from dmverify.attack.engines.base import Best, Engine, Turn
from dmverify.attack.engines.corners import corners
from dmverify.attack.engines.draws import cma, random, random_family
from dmverify.attack.engines.hill import hill
from dmverify.attack.engines.rows import rows
from dmverify.attack.engines.through import ascent, gradient

ENGINES: MappingProxyType[str, Engine] = MappingProxyType(
    {
        "random": random,
        "family": random_family,
        "cma": cma,
        "gradient": gradient,
        "ascent": ascent,
        "align": align,
        "corners": corners,
        "rows": rows,
        "hill": hill,
    }
)

ORDERS: MappingProxyType[tuple[bool, bool], tuple[tuple[str, float], ...]] = MappingProxyType(
    {
        (False, True): (
            ("family", 0.02),
            ("cma", 0.13),
            ("gradient", 0.5),
            ("align", 0.3),
            ("hill", 0.05),
        ),
        (False, False): (
            ("family", 0.02),
            ("cma", 0.13),
            ("gradient", 0.5),
            ("rows", 0.2),
            ("hill", 0.15),
        ),
        (True, True): (
            ("random", 0.03),
            ("corners", 0.07),
            ("align", 0.2),
            ("rows", 0.2),
            ("align", 0.2),
            ("rows", 0.28),
            ("hill", 0.02),
        ),
        (True, False): (("random", 0.05), ("gradient", 0.45), ("rows", 0.25), ("hill", 0.25)),
    }
)
"""Near a capture or under limits on sizes, whether errors from attention on the inputs are sought:
engines in turn, each with its share of the evaluations."""

AGAIN: tuple[tuple[str, float], ...] = (("ascent", 0.5), ("align", 0.35), ("hill", 0.15))
"""From candidates that are good but for a change. Ascent finds where aligning can go on."""

__all__ = ["AGAIN", "ENGINES", "ORDERS", "Best", "Engine", "Turn"]
