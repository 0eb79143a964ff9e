"""The journal of a run: every answer is on disk before the next question is asked.

It is an SQLite file in the recording's directory: one row says what runs, and one row a question
what became of it. The outputs lie where the recording has them. A run that is interrupted, by
whatever and wherever, leaves the journal, and the same command goes on:

| it was interrupted | then |
|---|---|
| before the journal had a row | it begins anew |
| while an answer was written | the question is asked again; SQLite undoes half a row itself |
| while the manifest was written, or the footer | both are written again, and nothing is asked |
| after the journal was removed | the recording is complete |

A row counts if it is about the same numbers and the same text of the contract, and the file has its
hash; else the question is asked again. The list may be another one: what it has no longer is left
out. One run at a time holds the journal's lock. It goes when the recording is durable.
"""

from __future__ import annotations

import json
import re
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from dmverify.conformance.store import (
    ANSWERS,
    FOOTER,
    OPTIONAL,
    REQUIRED,
    Sealed,
    StoredAnswers,
    answer_path,
    seal_of,
    write_answer,
    write_manifest,
)
from dmverify.errors import HarnessError, InputError
from dmverify.files import sync_folder
from dmverify.spec.case import Outputs
from dmverify.spec.recording import SHORT, WORDS, Key, Provenance, Question, Recording, Unanswered

JOURNAL = "journal.sqlite3"
FILES = (JOURNAL, f"{JOURNAL}-journal")  # SQLite keeps the second one while it writes
LARGEST = 1 << 28  # bytes of a journal
HASH, SHORT_HASH = "[0-9a-f]{64}", f"[0-9a-f]{{{SHORT}}}"
SAME = ("kernel", "source", "compiler", "flags", "device", "driver")  # the build may grow with use

TABLES = (
    "CREATE TABLE run (producer TEXT)",
    "CREATE TABLE done (case_id TEXT, contract TEXT, inputs TEXT, contract_text TEXT, "
    "size INTEGER, sha256 TEXT, hashes TEXT, why TEXT, reason TEXT, "
    "PRIMARY KEY (case_id, contract))",
)
PUT = "INSERT OR REPLACE INTO done VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Journal:
    """The journal in a directory, new or taken up again; a context that holds its lock.

    Args:
        directory: Directory of the recording; new, empty, or with the journal of the same kernel.
        producer: What answers.
        asked: Every question of the run. One without a hash of its inputs is answered by hashes,
            and takes that of its row.
        texts: The text of every contract that is named.

    Attributes:
        answers: What is answered already.
        hashes: Of answers whose numbers are not kept, the hash of every output.
        unanswered: Why other questions have no answer.
        inputs: The hash of the inputs of every question that a row is about.

    Raises:
        InputError: If the directory holds anything else, or another run holds the journal.
    """

    def __init__(
        self,
        directory: Path,
        producer: Provenance,
        asked: Sequence[Question],
        texts: Mapping[str, str],
    ) -> None:
        self.directory = directory
        self._sealed: dict[Key, Sealed] = {}
        self.answers = StoredAnswers(directory, self._sealed)
        self.hashes: dict[Key, dict[str, str]] = {}
        self.unanswered: dict[Key, Unanswered] = {}
        self.inputs: dict[Key, str] = {}
        self._texts = texts
        _require_ours(directory)
        directory.mkdir(parents=True, exist_ok=True)
        with _as_ours(directory / JOURNAL):
            self._base = sqlite3.connect(directory / JOURNAL, timeout=0, isolation_level=None)
        try:
            with _as_ours(directory / JOURNAL):
                self._open(_said(producer))
                self._restore(asked)
        except BaseException:
            self._base.close()
            raise
        (directory / FOOTER).unlink(missing_ok=True)  # the recording is not complete any more
        (directory / ANSWERS).mkdir(exist_ok=True)
        sync_folder(directory)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def knows(self, key: Key) -> bool:
        """Whether the question needs not be asked again."""
        return any(key in known for known in (self._sealed, self.hashes, self.unanswered))

    def answer(self, question: Question, outputs: Outputs) -> None:
        """Keeps an answer."""
        sealed = write_answer(self.directory, question.key, outputs)
        self._put(question, sealed.size, sealed.sha256)
        self._sealed[question.key] = sealed

    def answer_by_hash(self, question: Question, hashes: Mapping[str, str]) -> None:
        """Keeps the hashes of an answer, whose numbers go."""
        self._put(question, hashes=json.dumps(dict(hashes)))
        self.hashes[question.key] = dict(hashes)

    def note(self, question: Question, unanswered: Unanswered) -> None:
        """Keeps why a question has no answer."""
        self._put(question, why=unanswered.why, reason=unanswered.reason)
        self.unanswered[question.key] = unanswered

    def finish(self, recording: Recording) -> None:
        """Makes the directory the recording, and removes the journal when that is durable."""
        kept = {answer_path(self.directory, key) for key in self._sealed}
        for path in (self.directory / ANSWERS).iterdir():
            if path not in kept:
                path.unlink()
        sync_folder(self.directory / ANSWERS)
        write_manifest(recording, self.directory, self._sealed)
        self._base.close()
        for name in FILES:
            (self.directory / name).unlink(missing_ok=True)
        sync_folder(self.directory)

    def _open(self, said: str) -> None:
        """Takes the lock, and the tables or makes them."""
        self._base.execute("PRAGMA locking_mode=EXCLUSIVE")
        self._base.execute("PRAGMA synchronous=EXTRA")
        self._base.execute("BEGIN EXCLUSIVE")
        found = {text for (text,) in self._base.execute("SELECT sql FROM sqlite_master")} - {None}
        if not found:
            for table in TABLES:
                self._base.execute(table)
            self._base.execute("INSERT INTO run VALUES (?)", (said,))
        elif found != set(TABLES):
            raise sqlite3.DatabaseError("other tables")
        self._base.execute("COMMIT")
        if self._base.execute("SELECT producer FROM run").fetchall() != [(said,)]:
            raise InputError(
                self.directory / JOURNAL,
                rule="a run is continued with the kernel, device and driver that it began with",
                fix="repeat the command that was interrupted, or name another directory",
            )

    def _put(
        self,
        question: Question,
        size: int | None = None,
        sha256: str | None = None,
        **words: str,
    ) -> None:
        rest = (words.get(name) for name in ("hashes", "why", "reason"))
        about = (question.case_id, question.contract, question.inputs)
        row = (*about, self._texts[question.contract], size, sha256, *rest)
        self.inputs[question.key] = question.inputs
        with _as_ours(self.directory / JOURNAL):
            self._base.execute(PUT, row)

    def _restore(self, asked: Sequence[Question]) -> None:
        wanted = {question.key: question for question in asked}
        for row in self._base.execute("SELECT * FROM done"):
            case_id, contract, inputs, text, size, sha256, hashes, why, reason = row
            question = wanted.get((case_id, contract))
            if question is None:
                continue
            by_hash = not question.inputs and re.fullmatch(HASH, str(inputs))
            if not (by_hash or inputs == question.inputs) or text != self._texts[contract]:
                continue
            self.inputs[question.key] = inputs
            if why in WORDS and isinstance(reason, str):
                self.unanswered[question.key] = Unanswered(why, reason)
            elif by_hash and (found := _hashes(hashes)):
                self.hashes[question.key] = found
            elif isinstance(size, int):
                with suppress(OSError, InputError):  # it will be asked again
                    sealed = seal_of(answer_path(self.directory, question.key), largest=size)
                    if sealed == Sealed(size, sha256):
                        self._sealed[question.key] = sealed


def _hashes(text: object) -> dict[str, str]:
    """The hashes of a row; empty unless they are hashes of outputs."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return {}
    if not isinstance(found, dict) or not found.keys() <= set(REQUIRED + OPTIONAL):
        return {}
    return found if all(re.fullmatch(SHORT_HASH, str(x)) for x in found.values()) else {}


def _said(producer: Provenance) -> str:
    said = asdict(producer)
    return json.dumps({name: said[name] for name in SAME})


def _require_ours(directory: Path) -> None:
    """Raises unless a run may write here: nothing is there, or what a run left."""
    if not directory.exists():
        return
    names = {path.name for path in directory.iterdir()} if directory.is_dir() else {""}
    if names and JOURNAL not in names:
        raise InputError(
            directory,
            rule="a recording is never overwritten",
            fix="name a path that does not exist",
        )
    for name in FILES:
        found = (directory / name).lstat() if name in names else None
        if found and not (stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST):
            raise _no_journal(directory / name, f"{stat.filemode(found.st_mode)} {found.st_size}")


@contextmanager
def _as_ours(path: Path) -> Iterator[None]:
    """What SQLite says about the file or the disk, as an error of ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise InputError(
                path,
                rule="only one run at a time writes a recording",
                fix="wait for the other one, or name another directory",
            ) from error
        raise HarnessError(
            f"{path} ({error})",
            rule="the disk takes what a run writes to its journal",
            fix="make room or mend the folder, and repeat the command: it goes on",
        ) from error
    except sqlite3.DatabaseError as error:
        raise _no_journal(path, str(error)) from error


def _no_journal(path: Path, why: str) -> InputError:
    return InputError(
        f"{path} ({why})",
        rule="this is the journal of an interrupted run, as SQLite wrote it",
        fix="remove the directory and run again, or name another one",
    )
