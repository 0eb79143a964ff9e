"""A recording: what a kernel was asked, what it answered, and what made the answers.

This file is the value only; ``dmverify.conformance.store`` puts it on disk. A recording holds
numbers and no verdicts: whether an answer conforms is found by comparing it, and what has no answer
is ``unsupported``, an ``error`` or a ``timeout``. Hashes are SHA-256 of the little-endian bytes in
C order, so that the same numbers give the same hash on every machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from dmverify.spec.case import F32, Inputs, Outputs
from dmverify.spec.contracts import get_contract, says, to_table

Key: TypeAlias = tuple[str, str]
"""Case id and contract name."""

Word: TypeAlias = Literal["unsupported", "error", "timeout"]
SHORT = 32  # hexadecimal digits of a ``short_hash``

WORDS: tuple[Word, ...] = get_args(Word)
"""All that a recording may say of a question without an answer."""


@dataclass(frozen=True)
class Provenance:
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
class Question:
    """One case under one contract, and the numbers that were asked.

    Attributes:
        case_id: Canonical id of the case.
        contract: Canonical name of the contract.
        inputs: ``digest_inputs`` of the case's tensors.
    """

    case_id: str
    contract: str
    inputs: str

    @property
    def key(self) -> Key:
        """Case id and contract, which occur once in a recording."""
        return self.case_id, self.contract


@dataclass(frozen=True)
class Unanswered:
    """Why a question has no answer.

    Attributes:
        why: One of ``WORDS``.
        reason: The kernel's words, or what it did.
    """

    why: Word
    reason: str


@dataclass(frozen=True)
class Part:
    """Says that an answer holds the last 128 queries of some heads only (``recordings.tail``).

    Attributes:
        heads: Query heads, in order.
        whole: SHA-256 of each whole output, by name.
    """

    heads: tuple[int, ...]
    whole: Mapping[str, str]


@dataclass(frozen=True)
class Recording:
    """Answers of one producer.

    Attributes:
        producer: What answered.
        asked: Every question, answered or not, each once, in the order it was asked.
        answers: Outputs by key; of a stored recording they are read when they are looked up.
        unanswered: Why a question has none, by key.
        contracts: ``contract_text`` of every contract that is named, as it was then.
        version: Version of this project that asked.
        specification: SHA-256 of the text of its specification.
        parts: Of answers that are not whole, which part they are.
        hashes: Of answers whose numbers are not kept, the ``short_hash`` of every output.
    """

    producer: Provenance
    asked: tuple[Question, ...]
    answers: Mapping[Key, Outputs]
    unanswered: Mapping[Key, Unanswered] = field(default_factory=dict)
    contracts: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    specification: str = ""
    parts: Mapping[Key, Part] = field(default_factory=dict)
    hashes: Mapping[Key, Mapping[str, str]] = field(default_factory=dict)


def contract_text(name: str) -> str:
    """Every field of a contract, its name and the format's version, as JSON with sorted keys."""
    stated = get_contract(name)
    said: dict[str, object] = {"name": stated.name, **to_table(stated)}
    del said["summary"]  # words for people
    return json.dumps(said, sort_keys=True)


def still_says(name: str, text: str) -> bool:
    """Whether a ``contract_text`` of some time says what the contract of that name says today."""
    return says(text, get_contract(name))


def contract_texts(keys: Iterable[Key]) -> dict[str, str]:
    """``contract_text`` of every contract of some keys, by name."""
    return {name: contract_text(name) for name in sorted({name for _, name in keys})}


def digest(array: npt.NDArray[np.generic]) -> str:
    """SHA-256 of an array's little-endian bytes in C order."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(np.ascontiguousarray(little).reshape(-1).view(np.uint8).data).hexdigest()


def short_hash(array: F32) -> str:
    """The first half of ``digest``, every NaN being the same: enough to tell any two outputs."""
    return digest(canonical(array))[:SHORT]


def digest_inputs(inputs: Inputs) -> str:
    """One SHA-256 over the tensors and their shapes; every NaN counts as the same."""
    whole = hashlib.sha256()
    for name, array in inputs.named():
        whole.update(f"{name} {array.shape} {digest(canonical(array))}\n".encode())
    return whole.hexdigest()


def canonical(x: F32) -> F32:
    """The array with one NaN for all NaN, whose payload is part of no contract."""
    return np.where(np.isnan(x), np.float32(np.nan), x).astype(np.float32)
