"""Corpora with an index: which files there are, their bytes and hashes, and how each was found.

``index.json`` stands beside the files and follows the schema ``docs/schemas/corpus.json``. A reader
takes nothing that the index does not name, nothing larger than ``LARGEST``, and no file whose bytes
have another SHA-256. ``SHIPPED`` is the corpus that comes with dmverify.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec

from dmverify.attack.corpus import Entry, Found, read_entry
from dmverify.errors import RecordingError
from dmverify.files import TEXT, read_regular, write_durably

SHIPPED = Path(__file__).parent / "data"
INDEX, FORMAT, VERSION = "index.json", "dmverify-corpus", 1
LARGEST = 1 << 24  # bytes of one file
NAME = r"^[0-9a-f]{16}\.safetensors$"

Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Listed(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One file of the index.

    Attributes:
        file: Its name, by the hash of its numbers.
        bytes: Its size.
        sha256: SHA-256 of its bytes.
        found: How the input was found.
    """

    file: Annotated[str, msgspec.Meta(pattern=NAME)]
    bytes: Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]
    sha256: Sha256
    found: Found


class Index(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What ``index.json`` holds."""

    format: str
    version: int
    files: list[Listed]


def write_index(folder: Path) -> Path:
    """Writes the index of every find in a folder.

    Raises:
        InputError, RecordingError: If a file is no find, or not what it says.
    """
    files = []
    for path in sorted(folder.glob("*.safetensors")):
        content = read_regular(path, largest=LARGEST)
        found = read_entry(path).found
        files.append(Listed(path.name, len(content), hashlib.sha256(content).hexdigest(), found))
    text = msgspec.json.format(msgspec.json.encode(Index(FORMAT, VERSION, files)), indent=1)
    write_durably(folder / INDEX, text + b"\n")
    return folder / INDEX


def read_index(folder: Path) -> Index:
    """The index of a corpus.

    Raises:
        RecordingError: If it is missing, no index, or of another version.
    """
    path = folder / INDEX
    try:
        index = msgspec.json.decode(read_regular(path, largest=TEXT), type=Index)
    except (OSError, msgspec.MsgspecError) as error:
        _reject(f"{path}: {error}", "a corpus has an index that follows its schema")
    if (index.format, index.version) != (FORMAT, VERSION):
        _reject(
            f"{path} of format {index.format}, version {index.version}",
            f"this release reads {FORMAT}, version {VERSION}",
        )
    return index


def read_indexed(folder: Path) -> list[Entry]:
    """Every file of a corpus, in the order of its index.

    Raises:
        RecordingError: If a file is missing, not listed, or not what the index says.
        InputError: If one is larger than ``LARGEST``, or no find.
    """
    index = read_index(folder)
    there = {path.name for path in folder.glob("*.safetensors")}
    for name in sorted(there ^ {listed.file for listed in index.files}):
        _reject(f"{folder / name}", "the index lists exactly the files that are there")
    return [_read(folder / listed.file, listed) for listed in index.files]


def _read(path: Path, listed: Listed) -> Entry:
    content = read_regular(path, largest=LARGEST)
    if len(content) != listed.bytes or hashlib.sha256(content).hexdigest() != listed.sha256:
        _reject(f"{path}: {len(content)} bytes", "its bytes are those of the index's SHA-256")
    entry = read_entry(path)
    if entry.found != listed.found or not re.match(entry.found.inputs[:16], path.name):
        _reject(f"{path}", "the file and the index say the same of how it was found")
    return entry


def schema() -> dict[str, object]:
    """The JSON Schema of an index."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | msgspec.json.schema(Index)


def _reject(value: str, rule: str) -> NoReturn:
    raise RecordingError(value, rule=rule, fix="restore the corpus, or write its index anew")
