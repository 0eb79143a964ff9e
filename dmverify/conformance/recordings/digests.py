"""Outputs by their hash: enough to judge every bit, in 64 characters an output.

A hash is that of the float32 array with every NaN replaced by the canonical one, since the payload
of a NaN is not part of any contract; the sign of zero is. The file holds its own hash, so that a
changed or cut file is noticed. Not covered: where a mismatch lies. The case has to run again for
that, and both sides can.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dmverify.errors import RecordingError
from dmverify.spec.case import F32, Outputs
from dmverify.spec.recording import Producer, digest

VERSION = 1


@dataclass(frozen=True)
class Digests:
    """Hashes of outputs and what made them.

    Attributes:
        producer: The kernel, build and device.
        cases: (case id, contract) -> output name -> SHA-256.
        notes: What the reader should know.
    """

    producer: Producer
    cases: dict[tuple[str, str], dict[str, str]]
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """One hash over all cases, whatever their order."""
        text = json.dumps(sorted([*key, value] for key, value in self.cases.items()))
        return hashlib.sha256(text.encode()).hexdigest()


def digest_of(outputs: Outputs) -> dict[str, str]:
    """SHA-256 of every output that is present."""
    return {name: digest(canonical(array)) for name, array in outputs.items()}


def canonical(x: F32) -> F32:
    """The array with one NaN for all NaN."""
    return np.where(np.isnan(x), np.float32(np.nan), x).astype(np.float32)


def save_digests(digests: Digests, path: Path) -> None:
    """Writes the file; an existing one is replaced."""
    body = {
        "producer": asdict(digests.producer),
        "notes": digests.notes,
        "cases": [
            {"case": case, "contract": contract, "sha256": hashes}
            for (case, contract), hashes in digests.cases.items()
        ],
    }
    stored = {"version": VERSION, "sha256": _hash(body), "digests": body}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(stored, indent=0) + "\n")


def load_digests(path: Path) -> Digests:
    """Reads the file.

    Raises:
        RecordingError: If it is missing, cut, changed or of another version.
    """
    try:
        stored = json.loads(path.read_text())
        body = stored["digests"]
        whole = stored["version"] == VERSION and stored["sha256"] == _hash(body)
        producer = Producer(**{**body["producer"], "flags": tuple(body["producer"]["flags"])})
        cases = {(row["case"], row["contract"]): dict(row["sha256"]) for row in body["cases"]}
        notes = body["notes"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _broken(path, f"cannot be read ({error})") from error
    if not whole:
        raise _broken(path, f"was changed, or is not of version {VERSION}")
    return Digests(producer, cases, notes)


def _hash(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _broken(path: Path, what: str) -> RecordingError:
    return RecordingError(
        f"{path.name} {what}",
        rule="recorded hashes are read whole and unchanged",
        fix="install dmverify again, or record anew on a Hopper GPU",
    )
