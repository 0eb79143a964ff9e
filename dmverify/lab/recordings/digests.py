"""Outputs by their hash: enough to judge every bit, in 16 bytes an output.

A hash is the first half of the SHA-256 of the float32 array with every NaN replaced by the
canonical one, since the payload of a NaN is not part of any contract; the sign of zero is. Each
pair of case and contract also has a hash of its inputs, so that a family that draws other numbers
is told apart from a specification that computes others. The file holds its own hash, so that a
changed or cut file is noticed. Not covered: where a mismatch lies. The case has to run again for
that, and both sides can.

| in the npz | shape | holds |
|---|---|---|
| ids, contracts | bytes | the names, a line each |
| pairs | (P, 2) uint16 | which id and which contract |
| inputs | (P, 16) uint8 | hash of q, k, v and dO |
| outputs | (P, 6, 16) uint8 | hash of each output, zeros where none was returned |
| about | bytes | JSON: version, producer, notes, what was asked and not served |
| sha256 | (32,) uint8 | hash of all of the above |
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dmverify.errors import RecordingError
from dmverify.lab.recordings.plan import Key
from dmverify.spec.case import Inputs, Outputs
from dmverify.spec.recording import Provenance, canonical, digest

VERSION = 2
WIDTH = 16  # bytes of a hash
NAMES = ("o", "lse", "dq", "dk", "dv", "delta")
LARGEST_FILE = 1 << 24  # bytes
ARRAYS = ("ids", "contracts", "pairs", "inputs", "outputs", "about")

Stored = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Digests:
    """Hashes of outputs and what made them.

    Attributes:
        producer: The kernel, build and device.
        cases: (case id, contract) -> output name -> hash in hexadecimal.
        inputs: (case id, contract) -> hash of the inputs.
        unserved: (case id, contract) -> why the kernel did not answer.
        notes: What the reader should know.
    """

    producer: Provenance
    cases: dict[Key, dict[str, str]]
    inputs: dict[Key, str] = field(default_factory=dict)
    unserved: dict[Key, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """One hash over all cases, whatever their order."""
        text = json.dumps(sorted([*key, value] for key, value in self.cases.items()))
        return hashlib.sha256(text.encode()).hexdigest()

    def of(self, key: Key) -> Digests:
        """Those of one case."""
        return Digests(self.producer, {key: self.cases[key]}, {key: self.inputs[key]})


def digest_of(outputs: Outputs) -> dict[str, str]:
    """SHA-256 of every output that is present."""
    return {name: digest(canonical(array)) for name, array in outputs.items()}


def digest_of_inputs(inputs: Inputs) -> str:
    """One hash of the four tensors, whatever their strides."""
    parts = [digest(canonical(array)) for _, array in inputs.items()]
    return short(hashlib.sha256("".join(parts).encode()).hexdigest())


def short(sha256: str) -> str:
    """The part of a hash that is stored."""
    return sha256[: 2 * WIDTH]


def shortened(hashes: Mapping[str, str]) -> dict[str, str]:
    """The stored parts of the hashes of outputs."""
    return {name: short(value) for name, value in hashes.items()}


def save_digests(digests: Digests, path: Path) -> None:
    """Writes the file; an existing one is replaced."""
    ids = _numbered(case for case, _ in digests.cases)
    contracts = _numbered(contract for _, contract in digests.cases)
    about = {
        "version": VERSION,
        "producer": asdict(digests.producer),
        "notes": digests.notes,
        "unserved": [[*key, why] for key, why in digests.unserved.items()],
    }
    pairs = [(ids[case], contracts[contract]) for case, contract in digests.cases]
    stored: Stored = {
        "ids": _bytes("\n".join(ids)),
        "contracts": _bytes("\n".join(contracts)),
        "pairs": np.array(pairs, "<u2").reshape(-1, 2),
        "inputs": _hashes(digests.inputs.get(key, "") for key in digests.cases),
        "outputs": _hashes(
            short(hashes.get(name, "")) for hashes in digests.cases.values() for name in NAMES
        ).reshape(-1, len(NAMES), WIDTH),
        "about": _bytes(json.dumps(about, sort_keys=True)),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez_compressed(file, sha256=_own_hash(stored), **stored)  # type: ignore[arg-type]


def load_digests(path: Path) -> Digests:
    """Reads the file.

    Raises:
        RecordingError: If it is missing, cut, changed or of another version.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError(f"more than {LARGEST_FILE} bytes")
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            stored = {name: file[name] for name in ARRAYS}
            whole = bool((file["sha256"] == _own_hash(stored)).all())
        about = json.loads(stored["about"].tobytes())
        whole = whole and about["version"] == VERSION
        digests = _read(stored, about)
    except Exception as error:  # zip, zlib, json and numpy each have their own
        raise _broken(path, f"cannot be read ({error})") from error
    if not whole:
        raise _broken(path, f"was changed, or is not of version {VERSION}")
    return digests


def _read(stored: Stored, about: Any) -> Digests:
    ids, contracts = (stored[name].tobytes().decode().split("\n") for name in ("ids", "contracts"))
    keys = [(ids[i], contracts[j]) for i, j in stored["pairs"].tolist()]
    outputs = stored["outputs"]
    present = np.asarray(outputs.any(2))
    producer = about["producer"]
    return Digests(
        Provenance(**{**producer, "flags": tuple(producer["flags"])}),
        {
            key: {
                name: outputs[i, j].tobytes().hex() for j, name in enumerate(NAMES) if present[i, j]
            }
            for i, key in enumerate(keys)
        },
        {key: row.tobytes().hex() for key, row in zip(keys, stored["inputs"], strict=True)},
        {(case, contract): why for case, contract, why in about["unserved"]},
        about["notes"],
    )


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: i for i, name in enumerate(dict.fromkeys(names))}


def _bytes(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


def _hashes(texts: Iterable[str]) -> npt.NDArray[np.uint8]:
    """(N, WIDTH); zeros for an empty text."""
    whole = b"".join(bytes.fromhex(text or "00" * WIDTH) for text in texts)
    return np.frombuffer(whole, np.uint8).reshape(-1, WIDTH)


def _own_hash(stored: Stored) -> npt.NDArray[np.uint8]:
    digest = hashlib.sha256()
    for name in ARRAYS:
        array = np.ascontiguousarray(stored[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return np.frombuffer(digest.digest(), np.uint8)


def _broken(path: Path, what: str) -> RecordingError:
    return RecordingError(
        f"{path.name} {what}",
        rule="recorded hashes are read whole and unchanged",
        fix="install dmverify again, or record anew on a Hopper GPU",
    )
