"""What a peer answered, on disk: ``PEER.json`` beside ``PEER.safetensors``.

Tensors are kept in the format that the kernel stored (BF16 as uint16, E4M3 as uint8, float32), once
for each SHA-256 of type, shape and bytes; the JSON names them by that hash. A tensor whose bytes do
not hash to its name is refused on reading.

No recording, but data of this laboratory: E4M3 codes with a unit, amax values and repeats have no
place there, questions of tomography have no case id, and most tensors are left by their hash alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from dmverify.errors import RecordingError
from dmverify.spec.case import F32
from dmverify.spec.formats import E4M3

VERSION = 1
Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Entry:
    """One answer.

    Attributes:
        stage: See ``questions``.
        case_id: What was asked.
        tensors: Hash of each output, by name.
        numbers: Scalars that came along.
        error: Why there is no answer, or nothing.
    """

    stage: str
    case_id: str
    tensors: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    error: str = ""


@dataclass
class Answers:
    """All answers of one peer.

    Attributes:
        peer: Name.
        contract: What it is judged by.
        made_by: Versions and device.
        entries: In the order asked.
        repeats: What repeated calls differed in, by what was varied.
        blobs: Tensors by hash.
        head_dim: That it was asked with.
    """

    peer: str
    contract: str
    made_by: dict[str, str]
    entries: list[Entry] = field(default_factory=list)
    repeats: list[dict[str, Any]] = field(default_factory=list)
    blobs: dict[str, Array] = field(default_factory=dict)
    head_dim: int = 0

    def keep(self, array: Array) -> str:
        """Stores a tensor once and returns its hash."""
        packed = np.ascontiguousarray(array)
        name = _hash(packed)
        self.blobs.setdefault(name, packed)
        return name

    def find(self, case_id: str) -> Entry | None:
        """The answer to a question."""
        return next((entry for entry in self.entries if entry.case_id == case_id), None)

    def kept(self, entry: Entry) -> bool:
        """Whether every tensor of an answer is here; a shipped file keeps some of them."""
        return all(name in self.blobs for name in entry.tensors.values())

    def output(self, entry: Entry, name: str) -> F32:
        """An output widened to float32, in the kernel's units."""
        wide = widened(self.blobs[entry.tensors[name]])
        scaled: F32 = wide * np.float32(entry.numbers.get(f"unit_{name}", 1.0))
        return scaled

    def save(self, folder: Path) -> None:
        """Writes both files."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file(dict(self.blobs), folder / f"{self.peer}.safetensors")
        (folder / f"{self.peer}.json").write_text(json.dumps(self.to_json()))

    def to_json(self) -> dict[str, Any]:
        """All but the tensors."""
        return {
            "version": VERSION,
            "peer": self.peer,
            "contract": self.contract,
            "made_by": self.made_by,
            "head_dim": self.head_dim,
            "tensors": sorted(self.blobs),
            "entries": [asdict(entry) for entry in self.entries],
            "repeats": self.repeats,
        }


def widened(array: Array) -> F32:
    """Stored bits as float32 numbers."""
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if array.dtype == np.uint8:
        decoded: F32 = E4M3.decode(array.view(np.uint8))
        return decoded
    return array.astype(np.float32)


def load(folder: Path, peer: str) -> Answers:
    """Reads the answers of a peer.

    Raises:
        RecordingError: If a file is missing or damaged, or a tensor is not what its hash says.
    """
    try:
        text = json.loads((folder / f"{peer}.json").read_text())
    except (OSError, ValueError) as error:
        _reject(
            folder / f"{peer}.json", f"answers are a JSON file and a safetensors file ({error})"
        )
    return from_json(text, folder / f"{peer}.safetensors")


def from_json(text: dict[str, Any], tensors: Path) -> Answers:
    """Answers from their JSON and their file of tensors.

    Raises:
        RecordingError: See ``load``.
    """
    if text.get("version") != VERSION:
        _reject(tensors, f"this release reads answers of version {VERSION}")
    try:
        blobs = load_file(tensors)
    except (OSError, SafetensorError) as error:
        _reject(tensors, f"tensors are one complete safetensors file ({error})")
    entries = [Entry(**entry) for entry in text["entries"]]
    _require_hashes(tensors, text["tensors"], blobs)
    said = {name: text[name] for name in ("peer", "contract", "made_by", "repeats", "head_dim")}
    return Answers(**said, entries=entries, blobs=blobs)


def _require_hashes(where: Path, names: list[str], blobs: Mapping[str, Array]) -> None:
    for name, array in blobs.items():
        if _hash(array) != name:
            _reject(f"{where}: tensor {name}", "a tensor is named by its hash; it was changed")
    for name in sorted(set(names) ^ blobs.keys()):
        _reject(f"{where}: tensor {name}", "the JSON lists exactly the tensors that are there")


def _hash(array: Array) -> str:
    head = f"{array.dtype}{array.shape}".encode()
    return hashlib.sha256(head + array.tobytes()).hexdigest()[:32]


def _reject(value: object, rule: str) -> NoReturn:
    raise RecordingError(value, rule=rule, fix="ask the peer again, or fetch the files again")
