"""What a recording would notice: edits of the specification, each of which some pair has to reject.

    dmverify lab edits            # the list in data/edits.json
    dmverify lab edits LIST

An edit is one step of the specification written otherwise: a file below ``dmverify/spec``, the text
that goes (it stands there once) and the text that comes. It is made in a copy of the package, never
in the package itself, and the recorded pairs are replayed there until a hash differs or the edited
specification has no answer. The list is JSON: objects with name, file, old and new, and where an
edit can change no output the reason, as ``equivalent``; then it must not be noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import dmverify
from dmverify.errors import InputError

PACKAGE = Path(dmverify.__file__).parent
EDITS = Path(__file__).parent / "data" / "edits.json"


@dataclass(frozen=True)
class Edit:
    """A change of the specification.

    Attributes:
        name: What is done otherwise, in a few words.
        file: Below ``dmverify/spec``.
        old: The text that goes.
        new: The text that comes.
        equivalent: Why no output changes, for the few edits of which that is known.
    """

    name: str
    file: str
    old: str
    new: str
    equivalent: str = ""


def read_edits(path: Path = EDITS) -> tuple[Edit, ...]:
    """Reads a list.

    Raises:
        InputError: If it is no JSON list of edits.
    """
    try:
        return tuple(Edit(**row) for row in json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"{path} ({error})",
            rule="edits are a JSON list of objects with name, file, old and new",
            fix="see dmverify.lab.recordings.edits",
        ) from error


def noticed(edit: Edit, *, data: Path, parts: Sequence[str]) -> str:
    """What the replay says first of the edited specification; empty where every hash agrees.

    Args:
        edit: The change.
        data: Folder of the recording.
        parts: Parts of the plan that are replayed.

    Raises:
        InputError: If the text that goes does not stand in the file exactly once.
    """
    with tempfile.TemporaryDirectory() as folder:
        _copy(Path(folder) / PACKAGE.name, edit)
        words = ["--data", str(data.resolve()), "--first", "--parts", ",".join(parts)]
        ended = subprocess.run(
            [sys.executable, "-m", "dmverify", "lab", "replay", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    if ended.returncode == 0:
        return ""
    said = (ended.stdout or ended.stderr).strip().splitlines()
    return said[0] if ended.stdout else f"no answer: {said[-1] if said else ended.returncode}"


def require_text(edit: Edit) -> str:
    """The file's text with the edit made.

    Raises:
        InputError: If the text that goes does not stand in the file exactly once.
    """
    path = PACKAGE / "spec" / edit.file
    text = path.read_text() if path.is_file() else ""
    if text.count(edit.old) != 1 or edit.old == edit.new:
        raise InputError(
            f"edit {edit.name!r} of spec/{edit.file}: its text stands there {text.count(edit.old)}"
            " times",
            rule="an edit replaces a text that stands in the file once, by another",
            fix="copy the text from the file of this release",
        )
    return text.replace(edit.old, edit.new)


def shuffled(keys: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The cases in the order of their hashes, so that unlike ones come early."""
    return sorted(keys, key=lambda key: hashlib.sha256("\n".join(key).encode()).digest())


def _copy(package: Path, edit: Edit) -> None:
    """A package that is the installed one but for the edit."""
    edited = require_text(edit)
    package.mkdir()
    for entry in PACKAGE.iterdir():
        if entry.name == "spec":
            shutil.copytree(entry, package / "spec", ignore=shutil.ignore_patterns("__pycache__"))
        elif entry.name != "__pycache__":
            (package / entry.name).symlink_to(entry)
    (package / "spec" / edit.file).write_text(edited)
