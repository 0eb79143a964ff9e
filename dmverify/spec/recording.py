"""A recording: outputs of a kernel, the cases they answer, and what made them.

This file is the value only; ``dmverify.conformance.store`` writes it as safetensors with a JSON
manifest. Hashes are SHA-256 of the little-endian bytes in C order, so that the same numbers give
the same hash on every machine.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dmverify.spec.case import Internals, Outputs


@dataclass(frozen=True)
class Producer:
    """What made a recording.

    Attributes:
        kernel: Name of the kernel or probe.
        source: SHA-256 of its source text.
        build: SHA-256 of the binary that ran.
        compiler: Compiler and version.
        flags: Compiler flags, in order.
        device: Device name, or ``cpu``.
        driver: Driver version, empty on a CPU.
    """

    kernel: str
    source: str = ""
    build: str = ""
    compiler: str = ""
    flags: tuple[str, ...] = ()
    device: str = "cpu"
    driver: str = ""


@dataclass(frozen=True)
class Answer:
    """The outputs (and internals, from a dump build) for one case id."""

    case_id: str
    contract: str
    outputs: Outputs
    internals: Internals | None = None


@dataclass(frozen=True)
class Recording:
    """A sequence of answers by one producer."""

    producer: Producer
    answers: tuple[Answer, ...] = ()
    notes: dict[str, str] = field(default_factory=dict)


def digest(array: npt.NDArray[np.generic]) -> str:
    """SHA-256 of an array's little-endian bytes in C order."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(np.ascontiguousarray(little).tobytes()).hexdigest()
