"""Edits that the proofs must notice: a constant halved, a term dropped, a premise removed.

``sabotage.json`` was written before the checks that are to notice them. ``caught_by`` applies one
edit to a copy of the package in which every other file is a link, and asks in turn
1. the ties, and the statements as they were exported (``dmverify prove --ties``);
2. the tests that ``TESTS`` names;
3. for a file of ``rocq/``, the theorems up to it.

``dmverify lab sabotage [ID]...`` applies all, or those named, and fails if one passes unnoticed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import dmverify
from dmverify.errors import InputError, unknown_name
from dmverify.proofs.theorems import FILES, TheoremError, check_theorems

PACKAGE = Path(dmverify.__file__).parent
EDITS = Path(__file__).parent / "sabotage.json"
TESTS = (
    "tests/proofs/test_obligations.py",
    "tests/ledger/test_ledger_terms.py",
    "tests/ledger/test_premises.py",
    "tests/bounds/test_second_reading.py",
    "tests/proofs/test_enclosed.py",
)
"""Relative to the folder that the package is in, which an installed one has not."""


@dataclass(frozen=True)
class Edit:
    """One change.

    Attributes:
        id: Its name.
        kind: What it does, in words.
        file: Where, below the package.
        old: What stands there, once.
        new: What is put there.
    """

    id: str
    kind: str
    file: str
    old: str
    new: str


def edits() -> tuple[Edit, ...]:
    """All of them, in the order in which they were written down."""
    return tuple(Edit(**each) for each in json.loads(EDITS.read_text(encoding="utf-8")))


def get_edit(name: str) -> Edit:
    """Look an edit up.

    Raises:
        UnknownNameError: There is none of that name.
    """
    known = {edit.id: edit for edit in edits()}
    if name not in known:
        raise unknown_name("edit", name, known, shown_by="proofs/sabotage.json")
    return known[name]


def edited(edit: Edit) -> str:
    """The file's text after the edit.

    Raises:
        InputError: What is to be changed does not stand there exactly once.
    """
    text = (PACKAGE / edit.file).read_text(encoding="utf-8")
    if text.count(edit.old) != 1:
        raise InputError(
            f"{edit.id}: {text.count(edit.old)} times in {edit.file}",
            rule="an edit changes one place",
            fix="write what stands there now into sabotage.json",
        )
    return text.replace(edit.old, edit.new)


def apply(edit: Edit, folder: Path) -> Path:
    """A package in ``folder`` with the edit, all else links to the real one; returns the file."""
    target, here = folder / PACKAGE.name, PACKAGE
    *way, name = Path(edit.file).parts
    for part in (*way, None):
        target.mkdir()
        for entry in here.iterdir():
            if entry.name not in (part or name, "__pycache__"):
                (target / entry.name).symlink_to(entry.resolve())
        if part is not None:
            target, here = target / part, (here / part).resolve()
    (target / name).write_text(edited(edit), encoding="utf-8")
    return target / name


def caught_by(edit: Edit) -> str:
    """What notices an edit; empty if nothing does."""
    with tempfile.TemporaryDirectory() as folder:
        file = apply(edit, Path(folder))
        _link_tests(Path(folder))
        for name, words in _commands(Path(folder)):
            if _fails(words, Path(folder)):
                return name
        if file.suffix == ".v":
            try:
                check_theorems(file.parent, files=FILES[: FILES.index(file.stem) + 1])
            except TheoremError:
                return "theorems"
    return ""


def _commands(folder: Path) -> Iterator[tuple[str, list[str]]]:
    yield "ties", ["-m", "dmverify", "prove", "--ties"]
    for test in TESTS:
        if (folder / test).exists():
            yield test, ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]


def _fails(words: Sequence[str], folder: Path) -> bool:
    """Whether a command in the folder, whose package is the edited one, ends in an error."""
    quiet = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=quiet, capture_output=True, check=False
    )
    return done.returncode != 0


def _link_tests(folder: Path) -> None:
    """The tests beside the package, where there are any, so that they import the edited one."""
    tests = PACKAGE.parent / "tests"
    if tests.is_dir():
        shutil.copytree(tests, folder / "tests", copy_function=os.symlink)
