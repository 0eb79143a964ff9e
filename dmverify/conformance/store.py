"""Recordings on disk: a directory that is complete or does not exist.

| file | holds |
|---|---|
| answers/KEY.safetensors | the outputs of one question; KEY is a hash of case id and contract |
| manifest.json | producer, contracts, what was asked, the hash of every answer, what has none |
| footer.json | SHA-256 of the manifest, number of answers; written last |

``schema`` says what the manifest may hold: of an answer whose numbers are not kept, the hash of
every output. A directory without a footer is a write that was interrupted: it is called truncated.
A run keeps a ``journal`` in the directory until it has a footer. ``load`` says how a recording is
read and what refuses it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from dmverify import __version__
from dmverify.conformance.specification import specification_hash
from dmverify.conformance.tensors import decode, encode, require_names
from dmverify.errors import InputError, RecordingError
from dmverify.files import chunks, read_regular, sync_folder, write_durably
from dmverify.spec.case import Outputs
from dmverify.spec.recording import Key, Recording, contract_texts

FORMAT, VERSION = "dmverify-recording", 2
ANSWERS, MANIFEST, FOOTER = "answers", "manifest.json", "footer.json"
REQUIRED, OPTIONAL = ("o",), ("lse", "dq", "dk", "dv", "delta")


@dataclass(frozen=True)
class Sealed:
    """A file by its content: bytes and SHA-256."""

    size: int
    sha256: str


class StoredAnswers(Mapping[Key, Outputs]):
    """Outputs that are read from their file, and held to its hash, whenever they are looked up.

    Args:
        directory: Directory of the recording.
        sealed: What each file holds.
    """

    def __init__(self, directory: Path, sealed: Mapping[Key, Sealed]) -> None:
        self._directory = directory
        self.sealed = sealed

    def __getitem__(self, key: Key) -> Outputs:
        sealed = self.sealed[key]
        path = answer_path(self._directory, key)
        try:
            content = read_regular(path, largest=sealed.size)
            if seal(content) != sealed:
                raise ValueError("another SHA-256")
            found = decode(content)
            require_names(found, required=REQUIRED, optional=OPTIONAL)
        except (OSError, ValueError, InputError) as error:
            raise RecordingError(
                f"{path} ({error})",
                rule="an answer is one safetensors file that has the manifest's SHA-256",
                fix="record it again, or fetch the file again",
            ) from error
        return Outputs(**found)

    def __iter__(self) -> Iterator[Key]:
        return iter(self.sealed)

    def __len__(self) -> int:
        return len(self.sealed)


def save(recording: Recording, directory: str | os.PathLike[str]) -> Path:
    """Writes a recording to a new directory, all of it or nothing.

    Args:
        recording: What to write.
        directory: Path that must not exist yet.

    Raises:
        InputError: If the path exists.
    """
    target = Path(directory)
    if target.exists():
        raise InputError(
            target, rule="a recording is never overwritten", fix="name a path that does not exist"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        (work / ANSWERS).mkdir()
        sealed = {key: write_answer(work, key, x) for key, x in recording.answers.items()}
        write_manifest(recording, work, sealed)
        work.chmod(0o755)  # mkdtemp makes it private
        work.rename(target)
        sync_folder(target.parent)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    return target


def write_answer(directory: Path, key: Key, outputs: Outputs) -> Sealed:
    """Writes the file of one answer into a recording's directory, durably."""
    content = encode(outputs.items())
    write_durably(answer_path(directory, key), content)
    return seal(content)


def write_manifest(recording: Recording, directory: Path, sealed: Mapping[Key, Sealed]) -> None:
    """Writes manifest and footer, durably and in this order, over those of an interrupted write.

    Args:
        recording: What they describe; its answers are not looked up.
        directory: Where its answers lie.
        sealed: What the files of the answers hold.
    """
    keys = [question.key for question in recording.asked]
    texts = recording.contracts or contract_texts(keys)
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "made_with": {
            "dmverify": recording.version or __version__,
            "specification": recording.specification or specification_hash(),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "producer": asdict(recording.producer),
        "contracts": dict(texts),
        "asked": [
            {"case": asked.case_id, "contract": asked.contract, "inputs": asked.inputs}
            for asked in recording.asked
        ],
        "answers": [
            _answer_row(number, recording, sealed[key])
            for number, key in enumerate(keys)
            if key in sealed
        ],
        "unanswered": [
            {"asked": number, **asdict(recording.unanswered[key])}
            for number, key in enumerate(keys)
            if key in recording.unanswered
        ],
    }
    if recording.hashes:
        manifest["hashed"] = [
            {"asked": number, "outputs": dict(recording.hashes[key])}
            for number, key in enumerate(keys)
            if key in recording.hashes
        ]
    text = json.dumps(manifest, indent=1, sort_keys=True).encode()
    write_durably(directory / MANIFEST, text)
    footer = {"manifest_sha256": seal(text).sha256, "answers": len(sealed)}
    write_durably(directory / FOOTER, json.dumps(footer).encode())


def _answer_row(number: int, recording: Recording, sealed: Sealed) -> dict[str, object]:
    part = recording.parts.get(recording.asked[number].key)
    row = {"asked": number, "bytes": sealed.size, "sha256": sealed.sha256}
    return row if part is None else {**row, "part": asdict(part)}


def answer_path(directory: Path, key: Key) -> Path:
    """Where the outputs of a question lie; no text from outside becomes part of a path."""
    name = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
    return directory / ANSWERS / f"{name}.safetensors"


def seal(content: bytes) -> Sealed:
    """Size and SHA-256."""
    return Sealed(len(content), hashlib.sha256(content).hexdigest())


def seal_of(path: Path, *, largest: int) -> Sealed:
    """Size and SHA-256 of a file, read bit by bit.

    Raises:
        InputError: If it is no plain file, or larger.
        OSError: If it cannot be read.
    """
    whole, size = hashlib.sha256(), 0
    for chunk in chunks(path, largest=largest):
        whole.update(chunk)
        size += len(chunk)
    return Sealed(size, whole.hexdigest())
