"""Recordings on disk: a directory that is complete or does not exist.

| file | holds |
|---|---|
| tensors.safetensors | every array as it is, but BF16 numbers as uint16 |
| manifest.json | producer, answers, notes, versions; shape, storage and SHA-256 of each tensor |
| footer.json | SHA-256 of the manifest, number of answers; written last |

A directory without a footer is a write that was interrupted: it is called truncated. ``save`` fills
a temporary directory beside the target and renames it, so a failed save leaves nothing behind; a
run keeps a ``journal`` in the directory until it has a footer. Not covered: compression.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from dmverify.errors import InputError, RecordingError
from dmverify.spec.case import Internals, Outputs, beyond_bf16
from dmverify.spec.recording import Answer, Producer, Recording, digest

VERSION = 1
FORMAT = "dmverify-recording"
TENSORS, MANIFEST, FOOTER = "tensors.safetensors", "manifest.json", "footer.json"

Array = npt.NDArray[np.generic]

_AGAIN = "record it again, or fetch the file again"


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
        write_files(recording, work)
        work.rename(target)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    return target


def load(directory: str | os.PathLike[str]) -> Recording:
    """Reads a recording and checks every hash.

    Raises:
        RecordingError: If it is missing, truncated, tampered with or of another version; the
            message names the file or tensor.
    """
    path = Path(directory)
    if not path.is_dir():
        raise RecordingError(
            path,
            rule="a recording is a directory that exists",
            fix="check the path, or record first",
        )
    footer = _json(path, FOOTER, missing="the write was interrupted: the recording is truncated")
    manifest = _json(path, MANIFEST, missing="a recording has a manifest")
    found = hashlib.sha256((path / MANIFEST).read_bytes()).hexdigest()
    if found != footer.get("manifest_sha256"):
        _reject(path / MANIFEST, "the footer holds the manifest's SHA-256; it was changed")
    if (manifest.get("format"), manifest.get("version")) != (FORMAT, VERSION):
        raise RecordingError(
            f"{path}: format {manifest.get('format')!r}, version {manifest.get('version')!r}",
            rule=f"this release reads {FORMAT} version {VERSION}",
            fix="record it again with this release, or read it with the release that wrote it",
        )
    try:
        return _recording(path, manifest, footer)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise RecordingError(
            f"{path / MANIFEST} ({type(error).__name__}: {error})",
            rule="a manifest has what this release writes",
            fix=_AGAIN,
        ) from error


def _recording(path: Path, manifest: dict[str, Any], footer: dict[str, Any]) -> Recording:
    tensors = _read_tensors(path, manifest["tensors"])
    answers = tuple(
        _answer(entry, index, tensors) for index, entry in enumerate(manifest["answers"])
    )
    if len(answers) != footer.get("answers"):
        _reject(path, f"the footer promises {footer.get('answers')} answers, not {len(answers)}")
    producer = Producer(**{**manifest["producer"], "flags": tuple(manifest["producer"]["flags"])})
    return Recording(producer, answers, dict(manifest["notes"].items()))


def write_files(recording: Recording, work: Path) -> None:
    """Writes the three files into a directory, the footer last.

    Args:
        recording: What to write.
        work: A directory that exists.
    """
    arrays = dict(_arrays(recording))
    stored = {key: _pack(array) for key, array in arrays.items()}
    save_file(stored, work / TENSORS)
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "versions": {"numpy": np.__version__, "python": platform.python_version()},
        "producer": asdict(recording.producer),
        "notes": recording.notes,
        "answers": [_entry(answer) for answer in recording.answers],
        "tensors": {key: _describe(array, stored[key]) for key, array in arrays.items()},
    }
    text = json.dumps(manifest, indent=1, sort_keys=True).encode()
    (work / MANIFEST).write_bytes(text)
    footer = {
        "manifest_sha256": hashlib.sha256(text).hexdigest(),
        "answers": len(recording.answers),
    }
    (work / FOOTER).write_text(json.dumps(footer))


def _arrays(recording: Recording) -> Iterator[tuple[str, Array]]:
    for index, answer in enumerate(recording.answers):
        for name, array in answer.outputs.items():
            yield f"{index}/{name}", array
        if answer.internals is not None:
            for field in fields(Internals):
                if field.name != "norm_divides":
                    yield f"{index}/internals/{field.name}", getattr(answer.internals, field.name)


def _entry(answer: Answer) -> dict[str, object]:
    return {
        "case_id": answer.case_id,
        "contract": answer.contract,
        "outputs": [name for name, _ in answer.outputs.items()],
        "norm_divides": None if answer.internals is None else answer.internals.norm_divides,
    }


def _pack(array: Array) -> Array:
    """BF16 numbers in half the bytes; anything else as it is."""
    contiguous = np.ascontiguousarray(array)
    if contiguous.dtype == np.float32:
        single = contiguous.view(np.float32)
        if not beyond_bf16(single).any():
            return (single.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return contiguous


def _unpack(array: Array, dtype: str) -> Array:
    if array.dtype == np.uint16 and dtype == "float32":
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array


def _describe(array: Array, stored: Array) -> dict[str, object]:
    return {
        "sha256": digest(array),
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "stored": str(stored.dtype),
    }


def _read_tensors(path: Path, entries: Mapping[str, Mapping[str, Any]]) -> dict[str, Array]:
    try:
        stored = load_file(path / TENSORS)
    except (SafetensorError, OSError) as error:
        _reject(path / TENSORS, f"tensors are one complete safetensors file ({error})")
    for key in sorted(entries.keys() ^ stored.keys()):
        _reject(f"{path}: tensor {key!r}", "the manifest lists exactly the tensors of the file")
    tensors = {key: _unpack(stored[key], entry["dtype"]) for key, entry in entries.items()}
    for key, entry in entries.items():
        array = tensors[key]
        described = (str(array.dtype), list(array.shape), digest(array))
        if described != (entry["dtype"], entry["shape"], entry["sha256"]):
            _reject(f"{path}: tensor {key!r}", "a tensor has the manifest's dtype, shape, SHA-256")
    return tensors


def _answer(entry: Mapping[str, Any], index: int, tensors: Mapping[str, Array]) -> Answer:
    outputs: dict[str, Any] = {name: tensors[f"{index}/{name}"] for name in entry["outputs"]}
    internals = None
    if entry["norm_divides"] is not None:
        named: dict[str, Any] = {
            field.name: tensors[f"{index}/internals/{field.name}"]
            for field in fields(Internals)
            if field.name != "norm_divides"
        }
        internals = Internals(**named, norm_divides=entry["norm_divides"])
    return Answer(entry["case_id"], entry["contract"], Outputs(**outputs), internals)


def _json(path: Path, name: str, *, missing: str) -> dict[str, Any]:
    try:
        value = json.loads((path / name).read_text())
    except OSError:
        _reject(path / name, missing)
    except ValueError as error:
        _reject(path / name, f"{name} is JSON ({error})")
    if not isinstance(value, dict):
        _reject(path / name, f"{name} is a JSON object")
    return value


def _reject(value: object, rule: str) -> NoReturn:
    raise RecordingError(value, rule=rule, fix=_AGAIN)
