"""What texts refer to exists: modules and their members in the package, files in documents."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import dmverify

PACKAGE = Path(dmverify.__file__).parent
ROOT = PACKAGE.parent
NAMED = re.compile(r"``?([a-z_]+(?:\.[A-Za-z_]+)+)``?")
FILED = re.compile(r"\b((?:dmverify|docs|examples|tests|proofs|kernel)/[\w/-]+(?:\.\w+)*)")
FILES = (".py", ".json", ".cu", ".cuh", ".md", ".toml", ".npz", ".safetensors", ".txt", ".pkl")
ELSEWHERE = ("cvt.", "cuda.", "inputs.")
"""Beginnings of words in quotes that are names of other things: instructions, packages, fields."""
DOCUMENTS = (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))


@cache
def modules() -> dict[str, list[Path]]:
    """Every module by each end of its dotted name: ``store`` and ``conformance.store`` are one."""
    found: dict[str, list[Path]] = {}
    for path in PACKAGE.rglob("*.py"):
        parts = ("dmverify", *path.relative_to(PACKAGE).with_suffix("").parts)
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        for i in range(len(parts)):
            found.setdefault(".".join(parts[i:]), []).append(path)
    for folder in ("kernel", "proofs"):  # which are packages of their own in the checkout
        found.setdefault(f"dmverify.{folder}", []).append(PACKAGE / folder)
    return found


@cache
def members(path: Path) -> frozenset[str]:
    """What a module defines, binds or imports, at any depth."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names |= {getattr(node, "name", ""), getattr(node, "id", ""), getattr(node, "attr", "")}
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
    return frozenset(map(str, names))


def exists(reference: str) -> bool:
    """Whether a dotted name is that of a module, or of a member of one."""
    parts = reference.split(".")
    for i in range(len(parts), 0, -1):
        paths = modules().get(".".join(parts[:i]))
        if paths:
            return i == len(parts) or any(parts[i] in members(path) for path in paths)
    return True  # no module's name: a word of something else


def lost(text: str) -> set[str]:
    """The references of a text that lead nowhere."""
    quoted = {name for name in NAMED.findall(text) if not name.endswith(FILES)}
    return {name for name in quoted if not name.startswith(ELSEWHERE) and not exists(name)}


def test_modules_in_texts_exist():
    found = {str(p.relative_to(ROOT)): lost(p.read_text()) for p in sorted(PACKAGE.rglob("*.py"))}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.skipif(not (ROOT / "docs").exists(), reason="no checkout")
def test_files_in_documents_exist():
    named = {(path.name, name) for path in DOCUMENTS for name in FILED.findall(path.read_text())}
    assert {(path, name) for path, name in named if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize(
    "text", ["see ``conformance.peers``", "``store.no_such``", "`lab.mutants.gone`"]
)
def test_a_reference_that_leads_nowhere_is_seen(text):
    assert lost(text)


def test_one_that_leads_somewhere_is_not():
    assert not lost("``conformance.store``, ``store.save`` of ``dmverify.spec.case.Outputs``")
