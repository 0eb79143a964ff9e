"""The recordings of Hopper instructions that ship with dmverify, and their checked reading.

| file | arrays |
|---|---|
| wgmma.npz | per form `FORM/a`, `/b` codes, `/c`, `/d` bits; one tile per family, in order |
| functions.npz | `inputs`, `map/NAME` bits; `hash/NAME`: digests of the 4096 blocks of all 2^32 |
| arith.npz | `operands` (3, count) bits, `out/NAME` bits |
| manifest.json | SHA-256 of every array, what built the probes, device, driver, forms |

An array is handed out only if its bytes have the hash that the manifest gives.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmverify.errors import RecordingError
from dmverify.lab.probes.wgmma_source import Form
from dmverify.spec.machine import hopper

VERSION = 1
FOLDER = Path(hopper.__file__).with_name("data")
Arrays = dict[str, NDArray[Any]]


def sha256(array: NDArray[Any]) -> str:
    """Hash of dtype, shape and little-endian bytes."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    digest = hashlib.sha256(f"{little.dtype.str}{little.shape}".encode())
    digest.update(little.tobytes())
    return digest.hexdigest()


def write(folder: Path, groups: dict[str, Arrays], *, forms: tuple[Form, ...], origin: Any) -> None:
    """Writes the recordings; the manifest comes last and every file is renamed into place.

    Args:
        folder: Where to; made if missing.
        groups: Arrays by file stem.
        forms: The wgmma forms, in order.
        origin: JSON value that says what made the arrays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for stem, arrays in groups.items():
        partial = folder / f".{stem}.npz"
        with partial.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
        os.replace(partial, folder / f"{stem}.npz")
    hashes = {stem: {k: sha256(v) for k, v in arrays.items()} for stem, arrays in groups.items()}
    manifest = {"version": VERSION, "origin": origin, "sha256": hashes}
    manifest["forms"] = [asdict(form) for form in forms]
    partial = folder / ".manifest.json"
    partial.write_text(json.dumps(manifest, indent=1) + "\n")
    os.replace(partial, folder / "manifest.json")


def manifest(folder: Path = FOLDER) -> dict[str, Any]:
    """The manifest.

    Raises:
        RecordingError: Missing, unreadable or of another version.
    """
    try:
        value = json.loads((folder / "manifest.json").read_text())
    except (OSError, ValueError) as error:
        raise _broken(folder / "manifest.json", f"is no readable manifest ({error})") from error
    if not isinstance(value, dict) or value.get("version") != VERSION:
        raise _broken(folder / "manifest.json", f"is not of version {VERSION}")
    return value


def load(stem: str, *, folder: Path = FOLDER) -> Arrays:
    """All arrays of one file, checked against the manifest.

    Args:
        stem: ``wgmma``, ``functions`` or ``arith``.
        folder: Where the recordings are.

    Raises:
        RecordingError: A file or array is missing, truncated, superfluous or changed.
    """
    hashes = manifest(folder)["sha256"].get(stem, {})
    path = folder / f"{stem}.npz"
    try:
        with np.load(io.BytesIO(path.read_bytes())) as stored:
            arrays = {key: stored[key] for key in stored.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _broken(path, f"cannot be read ({error})") from error
    changed = [key for key in hashes.keys() | arrays.keys() if _differs(hashes, arrays, key)]
    if changed:
        raise _broken(path, f"differs from the manifest in {', '.join(sorted(changed)[:3])}")
    return arrays


def _differs(hashes: dict[str, str], arrays: Arrays, key: str) -> bool:
    return key not in hashes or key not in arrays or sha256(arrays[key]) != hashes[key]


def _broken(path: Path, what: str) -> RecordingError:
    return RecordingError(
        f"{path.name} {what}",
        rule="a recording is read whole and unchanged",
        fix="install dmverify again, or record anew on a Hopper GPU",
    )
