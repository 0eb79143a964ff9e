"""Outputs by their hash: enough to judge every bit, in 16 bytes an output.

On disk they are a recording of ``conformance.store`` whose answers are hashes. A hash is the first
half of the SHA-256 of the float32 array with every NaN replaced by the canonical one, since the
payload of a NaN is not part of any contract; the sign of zero is. Each question also has a hash of
its inputs, so that a family that draws other numbers is told apart from a specification that
computes others. Not covered: where a mismatch lies. The case has to run again for that, and both
sides can.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dmverify.conformance.store import save
from dmverify.spec.case import Outputs
from dmverify.spec.recording import (
    SHORT,
    Key,
    Provenance,
    Question,
    Recording,
    Unanswered,
    canonical,
    digest,
)

NAMES = ("o", "lse", "dq", "dk", "dv", "delta")  # the order that ``sha256`` is of


@dataclass(frozen=True)
class Digests:
    """Hashes of outputs and what made them.

    Attributes:
        producer: The kernel, build and device.
        cases: (case id, contract) -> output name -> hash in hexadecimal.
        inputs: (case id, contract) -> hash of the inputs, of what was not served too.
        unserved: (case id, contract) -> why the kernel did not answer.
        specification: SHA-256 of the text of the specification of that time.
    """

    producer: Provenance
    cases: dict[Key, dict[str, str]]
    inputs: dict[Key, str] = field(default_factory=dict)
    unserved: dict[Key, str] = field(default_factory=dict)
    specification: str = ""

    @property
    def sha256(self) -> str:
        """One hash over all cases, whatever their order."""
        text = json.dumps(sorted([*key, value] for key, value in self.cases.items()))
        return hashlib.sha256(text.encode()).hexdigest()

    def of(self, key: Key) -> Digests:
        """The hashes of one case."""
        return Digests(self.producer, {key: self.cases[key]}, {key: self.inputs[key]})

    def recording(self) -> Recording:
        """The hashes as a recording: what was answered, then what was not."""
        return Recording(
            self.producer,
            tuple(Question(*key, self.inputs[key]) for key in (*self.cases, *self.unserved)),
            {},
            {key: Unanswered("unsupported", why) for key, why in self.unserved.items()},
            specification=self.specification,
            hashes={key: shortened(hashes) for key, hashes in self.cases.items()},
        )


def digest_of(outputs: Outputs) -> dict[str, str]:
    """SHA-256 of every output that is present."""
    return {name: digest(canonical(array)) for name, array in outputs.items()}


def shortened(hashes: Mapping[str, str]) -> dict[str, str]:
    """The stored parts of the hashes of outputs."""
    return {name: value[:SHORT] for name, value in hashes.items()}


def save_digests(digests: Digests, folder: Path) -> None:
    """Writes a recording, all of it or nothing.

    Raises:
        InputError: If the folder exists.
    """
    save(digests.recording(), folder)


def load_digests(folder: Path) -> Digests:
    """Reads a recording of hashes.

    Raises:
        RecordingError: If it is missing, cut, changed or of another version.
    """
    from dmverify.conformance.load import load  # needs msgspec, which no run of a kernel does

    found = load(folder)
    return Digests(
        found.producer,
        {
            key: {name: hashes[name] for name in NAMES if name in hashes}
            for key, hashes in found.hashes.items()
        },
        {question.key: question.inputs for question in found.asked},
        {key: one.reason for key, one in found.unanswered.items()},
        found.specification,
    )
