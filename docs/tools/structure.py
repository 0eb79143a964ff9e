"""Draws docs/structure.svg, the layers of the package, from its imports.

    python docs/tools/structure.py           # writes the file
    python docs/tools/structure.py --check   # fails if it would change

An arrow is an import; one that follows from others (A imports B and B imports C) is left out. A
circle is refused, so no arrow can run back up.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "structure.svg"
WIDTH, HEIGHT, ACROSS, DOWN, MARGIN = 216, 62, 248, 122, 16  # pixels

SAYS = {
    "spec": "what must come out",
    "kernel": "the bundled Hopper kernel",
    "proofs": "lemmas, certificates, theorems",
    "conformance": "judges any kernel",
    "lab": "evidence about ourselves",
    "studies": "experiments and their figures",
    "attack": "searches for the worst inputs",
    "ci": "pytest and continuous integration",
    "cli": "the command dmverify",
}

Graph = Mapping[str, set[str]]


def layers() -> Graph:
    """What each folder of the package imports of the others."""
    names = {path.name for path in (ROOT / "dmverify").iterdir() if (path / "__init__.py").exists()}
    found: dict[str, set[str]] = {name: set() for name in sorted(names)}
    for name in found:
        for path in sorted((ROOT / "dmverify" / name).rglob("*.py")):
            found[name] |= imported(path.read_text(encoding="utf-8")) & names - {name}
    return found


def imported(source: str) -> set[str]:
    """The folders of the package that a source text imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names, level=0):
                found |= {f"{module}.{alias.name}" for alias in names}
    parts = [name.split(".") for name in found]
    return {path[1] for path in parts if path[0] == "dmverify" and len(path) > 1}


def levels(graph: Graph) -> dict[str, int]:
    """The row of each layer: right below the lowest that imports it, else as low as it can be.

    Raises:
        graphlib.CycleError: If imports form a circle.
    """
    order = list(TopologicalSorter(graph).static_order())
    found: dict[str, int] = {}
    for name in order:
        found[name] = 1 + max((found[below] for below in graph.get(name, ())), default=-1)
    for name in reversed(order):
        above = [found[one] for one in graph if name in graph[one]]
        found[name] = min(above) - 1 if above else found[name]
    return found


def reduced(graph: Graph) -> Graph:
    """The graph without the arrows that follow from others."""
    below = {name: _reached(graph, name) for name in graph}
    return {
        name: {one for one in into if not any(one in below[other] for other in into - {one})}
        for name, into in graph.items()
    }


def _reached(graph: Graph, name: str) -> set[str]:
    return set().union(*({one} | _reached(graph, one) for one in graph.get(name, ())))


class Box(NamedTuple):
    """Where a layer is drawn."""

    x: int
    y: int


def places(graph: Graph) -> dict[str, Box]:
    """Rows by level, the lowest at the bottom, each row centred."""
    level = levels(graph)
    rows = [[n for n in graph if level[n] == at] for at in range(max(level.values()) + 1)]
    widest = max(map(len, rows))
    found = {}
    for y, row in enumerate(reversed(rows)):
        start = MARGIN + (widest - len(row)) * ACROSS // 2
        found |= {name: Box(start + x * ACROSS, MARGIN + y * DOWN) for x, name in enumerate(row)}
    return found


def drawn(graph: Graph) -> str:
    """The picture as SVG text."""
    boxes = places(graph)
    width = max(box.x for box in boxes.values()) + WIDTH + MARGIN
    height = max(box.y for box in boxes.values()) + HEIGHT + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" role="img">',
        "<title>Layers of dmverify; every arrow is an import and points down</title>",
        '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#556"/></marker></defs>',
        f'<rect width="{width}" height="{height}" rx="8" fill="#fff"/>',
    ]
    for name, into in reduced(graph).items():
        lines += [_arrow(boxes[name], boxes[one]) for one in sorted(into)]
    lines += [line for name, box in boxes.items() for line in _box(name, box)]
    return "\n".join([*lines, "</svg>", ""])


def _arrow(start: Box, end: Box) -> str:
    ends = f"M{start.x + WIDTH // 2} {start.y + HEIGHT}L{end.x + WIDTH // 2} {end.y - 2}"
    return f'<path d="{ends}" stroke="#556" stroke-width="1.5" fill="none" marker-end="url(#end)"/>'


def _box(name: str, box: Box) -> list[str]:
    middle = box.x + WIDTH // 2
    return [
        f'<rect x="{box.x}" y="{box.y}" width="{WIDTH}" height="{HEIGHT}" rx="6" '
        'fill="#eef1fb" stroke="#3f51b5"/>',
        f'<text x="{middle}" y="{box.y + 26}" text-anchor="middle" font-size="16" '
        f'font-weight="bold" fill="#223">{name}</text>',
        f'<text x="{middle}" y="{box.y + 46}" text-anchor="middle" font-size="12" '
        f'fill="#445">{SAYS.get(name, "")}</text>',
    ]


def main() -> None:
    """Writes the picture, or with ``--check`` compares it."""
    text = drawn(layers())
    if "--check" not in sys.argv[1:]:
        PICTURE.write_text(text, encoding="utf-8")
    elif PICTURE.read_text(encoding="utf-8") != text:
        sys.exit(f"{PICTURE.name} is stale: run python docs/tools/structure.py")


if __name__ == "__main__":
    main()
