"""The journal of a run: every answer is on disk before the next question is asked.

| file in the recording's directory | holds |
|---|---|
| journal.jsonl | one header, then one line a case: what became of it, and the part's SHA-256 |
| parts/N.safetensors | the outputs of case number N, written under another name and renamed |

A run that is interrupted, by whatever, leaves both and no footer, so that ``store.load`` calls the
recording truncated; the same run on the same directory goes on where it stopped. At the end the
recording's own files replace the journal. A line or part that is incomplete counts as not there.
Not covered: two runs on one directory at a time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from dmverify.conformance.store import write_files
from dmverify.errors import InputError
from dmverify.spec.case import Outputs
from dmverify.spec.recording import Producer, Recording

JOURNAL, PARTS = "journal.jsonl", "parts"
SAME = ("kernel", "source", "compiler", "flags", "device", "driver")  # the build may grow with use
Key = tuple[str, str]
"""Case id and contract name."""


class Journal:
    """The journal in a directory, new or taken up again.

    Args:
        directory: Of the recording; new, empty, or with the journal of the same run.
        producer: What answers.
        asked: Every question of the run.

    Attributes:
        outputs: What is answered already.
        notes: Why other cases have no answer, by the recording's keys.

    Raises:
        InputError: If the directory holds anything else.
    """

    def __init__(self, directory: Path, producer: Producer, asked: Sequence[Key]) -> None:
        self.directory = directory
        self.outputs: dict[Key, Outputs] = {}
        self.notes: dict[str, str] = {}
        self._noted: set[Key] = set()
        header = _header(producer, asked)
        if (directory / JOURNAL).exists():  # with a footer too: the last step was interrupted
            self._take_up(header)
        elif directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise InputError(
                directory,
                rule="a recording is never overwritten",
                fix="name a path that does not exist",
            )
        else:
            (directory / PARTS).mkdir(parents=True, exist_ok=True)
            self._append(header)

    def knows(self, key: Key) -> bool:
        """Whether the case needs no further run."""
        return key in self.outputs or key in self._noted

    def answer(self, key: Key, number: int, outputs: Outputs) -> None:
        """Keeps an answer."""
        content = save({name: np.ascontiguousarray(array) for name, array in outputs.items()})
        path = self._part(number)
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            file.write(content)
            os.fsync(file.fileno())
        part.replace(path)
        self.outputs[key] = outputs
        self._append({"key": key, "number": number, "sha256": _sha256(content)})

    def note(self, key: Key, name: str, reason: str) -> None:
        """Keeps why a case has no answer."""
        self.notes[name] = reason
        self._noted.add(key)
        self._append({"key": key, "name": name, "reason": reason})

    def finish(self, recording: Recording) -> None:
        """Replaces the journal by the recording."""
        write_files(recording, self.directory)
        (self.directory / JOURNAL).unlink()
        shutil.rmtree(self.directory / PARTS)

    def _part(self, number: int) -> Path:
        return self.directory / PARTS / f"{number}.safetensors"

    def _append(self, row: dict[str, Any]) -> None:
        with (self.directory / JOURNAL).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _take_up(self, header: dict[str, Any]) -> None:
        path = self.directory / JOURNAL
        lines = path.read_text(encoding="utf-8").split("\n")
        whole, rest = lines[:-1], lines[-1]
        if rest:  # the line that was being written
            path.write_text("".join(f"{line}\n" for line in whole), encoding="utf-8")
        rows = [json.loads(line) for line in whole]
        if not rows or rows[0] != json.loads(json.dumps(header)):
            raise InputError(
                path,
                rule="a run goes on with the same kernel and the same cases",
                fix="repeat the command that was interrupted, or name another directory",
            )
        for row in rows[1:]:
            self._restore(row)

    def _restore(self, row: dict[str, Any]) -> None:
        key: Key = (row["key"][0], row["key"][1])
        if "name" in row:
            self.notes[row["name"]] = row["reason"]
            self._noted.add(key)
            return
        try:
            content = self._part(row["number"]).read_bytes()
            if _sha256(content) == row["sha256"]:
                self.outputs[key] = Outputs(**load(content))
        except (OSError, SafetensorError):
            return  # it will be asked again


def _header(producer: Producer, asked: Sequence[Key]) -> dict[str, Any]:
    said = asdict(producer)
    return {
        "producer": {name: said[name] for name in SAME},
        "asked": _sha256(json.dumps(list(asked)).encode()),
        "cases": len(asked),
    }


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
