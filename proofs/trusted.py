"""What a verdict trusts, in lines: which code of the bounds the ties run, and which none does.

A function of the bounds counts as compared if it runs while the ties are compared: a theorem's
right side then stands against what it computes. Everything else is read by hand. Lines are those of
functions, docstrings and comments left out.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import dmverify
from dmverify.proofs.every_tie import all_ties
from dmverify.proofs.ties import compare

PACKAGE = Path(dmverify.__file__).parent
BOUNDS = ("spec/bounds/*.py", "spec/ledger/bounds/*.py")
ENCLOSURES = ("spec/arithmetic/enclosure*.py", "spec/arithmetic/interval.py", "spec/enclosure/*.py")
EXACT_SUMS = ("spec/ledger/terms.py", "spec/ledger/dyadic.py", "spec/ledger/rows.py")
VARIABLES = ("proofs/tie_*.py", "proofs/ties_*.py")
READING = ("proofs/gallina.py", "proofs/evaluate.py", "proofs/statements.py", "proofs/ties.py")
ENCODINGS = tuple(
    f"proofs/{name}.py"
    for name in (
        "arguments", "cast", "delta", "dominated", "e4m3", "encode", "ledger", "products",
        "scaling", "softmax", "stores", "sums", "tensor_core", "window", "zero_sum_tight",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """One part of the base.

    Attributes:
        name: What it is.
        lines: Lines of code.
        why: What stands for it.
    """

    name: str
    lines: int
    why: str


def trusted_base() -> tuple[Part, ...]:
    """All parts, the compared one first; it runs the ties."""
    reached = _reached()
    found = list(_functions(BOUNDS))
    compared = sum(lines for key, lines in found if key in reached)
    others = sum(lines for key, lines in found if key not in reached)
    return (
        Part("bounds that a theorem stands against", compared, "the ties: not trusted"),
        Part("bounds that compose these", others, "by hand, and searches for violations"),
        Part("enclosures", _lines(ENCLOSURES), "by induction over the steps, by hand"),
        Part("exact sums of the ledger", _lines(EXACT_SUMS), "rationals, and the ledger closes"),
        Part("what a theorem's variables are", _lines(VARIABLES), "by hand"),
        Part("reading and running statements", _lines(READING), "tests by hand-made numbers"),
        Part("encodings of lemmas", _lines(ENCODINGS), "replayed models, sweeps, controls"),
    )


def shown(parts: Iterable[Part]) -> str:
    """A line a part, for a terminal."""
    lines = [f"{part.lines:6}  {part.name}: {part.why}" for part in parts]
    also = "Rocq, Flocq and four axioms of the real numbers; z3, cvc5, bitwuzla; float64, balls"
    return "\n".join(("", "trusted base, in lines of code", *lines, f"        {also}"))


def _reached() -> set[tuple[str, int]]:
    """File and first line of every function that the ties run."""
    seen: set[tuple[str, int]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for tie in all_ties():
            compare(tie)
    finally:
        sys.setprofile(before)
    return seen


def _lines(patterns: Iterable[str]) -> int:
    return sum(lines for _, lines in _functions(patterns))


def _functions(patterns: Iterable[str]) -> Iterator[tuple[tuple[str, int], int]]:
    """File and first line of functions and methods, and how many lines of code they have."""
    for path in sorted(path for pattern in patterns for path in PACKAGE.glob(pattern)):
        text = path.read_text(encoding="utf-8")
        code = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
                yield (str(path), first), _own_lines(node, code)


def _own_lines(node: ast.FunctionDef, code: list[str]) -> int:
    """Lines that are neither empty, nor a comment, nor of the docstring."""
    quiet: set[int] = set()
    if ast.get_docstring(node) is not None:
        text = node.body[0]
        quiet = set(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    inside = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    kept = (code[line - 1].strip() for line in inside if line not in quiet)
    return sum(bool(line) and not line.startswith("#") for line in kept)
