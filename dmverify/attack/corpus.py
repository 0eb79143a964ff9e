"""Attacks on disk: the tensors in BF16, and what they are, in one safetensors file.

Any tool reads the tensors q, k, v, do; ``dmverify verify KERNEL --inputs FILE`` asks them of any
kernel. The metadata say how they were found (``Found``). A corpus is a folder of such files, each
named by the hash of its numbers, so that the same find from two runs is one file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import safetensors.torch

from dmverify.attack.stack import Stack, from_arrays
from dmverify.conformance.tensor_files import Source, bring_file, brought_case
from dmverify.errors import InputError, RecordingError
from dmverify.files import write_durably
from dmverify.spec.problem import Problem
from dmverify.spec.recording import digest_inputs

FORMAT = "dmverify-attack"
VERSION = 1
LETTERS = 16


class Found(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How an input was found.

    Attributes:
        kernel: The kernel that was attacked.
        contract: Its contract.
        objective: What was maximised, and against what.
        limits: What was allowed.
        value: The objective.
        seed: Seed of the attempt that found it.
        evaluations: Evaluations of that attempt.
        version: Version of dmverify.
        inputs: ``digest_inputs`` of the numbers.
    """

    kernel: str
    contract: str
    objective: str
    against: str
    limits: str
    value: float
    seed: int
    evaluations: int
    version: str
    inputs: str


@dataclass(frozen=True, eq=False)
class Entry:
    """One file of a corpus."""

    problem: Problem
    stack: Stack
    found: Found


def digest(stack: Stack) -> str:
    """SHA-256 of the numbers of one candidate."""
    return digest_inputs(stack.inputs())


def write_entry(path: Path, entry: Entry) -> Path:
    """Writes one file, whole or not at all.

    Args:
        path: The file, or a folder, in which it gets its name by content.
        entry: What it holds.

    Returns:
        The file.
    """
    name = f"{entry.found.inputs[:LETTERS]}.safetensors"
    target = path / name if path.is_dir() or path.suffix != ".safetensors" else path
    target.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: x.bfloat16().contiguous() for name, x in entry.stack.items()}
    problem = entry.problem
    about = {
        "format": FORMAT,
        "version": str(VERSION),
        "causal": json.dumps(problem.causal),
        "softmax_scale": repr(problem.scale),
        "found": msgspec.json.encode(entry.found).decode(),
    }
    write_durably(target, safetensors.torch.save(tensors, metadata=about))
    return target


def read_entry(path: Path) -> Entry:
    """Reads one file and compares its numbers with their hash.

    Raises:
        InputError: For a file that is no attack, too large, or broken.
        RecordingError: If its numbers are not those it names.
    """
    (case_id,) = bring_file(Source(path))[:1] or ("",)
    case = brought_case(case_id, "article")
    stack = from_arrays({name: np.asarray(x) for name, x in case.inputs.items()})
    found = _metadata(path)
    if digest(stack) != found.inputs:
        raise RecordingError(
            f"{path}: tensors whose hash is {digest(stack)[:LETTERS]}",
            rule=f"it says that they are {found.inputs[:LETTERS]}",
            fix="restore the file; who changes the numbers makes another find",
        )
    return Entry(case.problem, stack, found)


def _metadata(path: Path) -> Found:
    with safetensors.safe_open(path, framework="np") as file:
        about: dict[str, Any] = file.metadata() or {}
    if about.get("format") != FORMAT or about.get("version") != str(VERSION):
        raise InputError(
            f"{path} of format {about.get('format')!r}, version {about.get('version')!r}",
            rule=f"an attack has format {FORMAT}, version {VERSION}",
            fix="name a file that 'dmverify attack --out' wrote",
        )
    try:
        return msgspec.json.decode(about.get("found", ""), type=Found)
    except msgspec.MsgspecError as error:
        raise InputError(
            f"{path}: {error}",
            rule="the metadata say how the input was found",
            fix="restore the file",
        ) from error


def read_corpus(path: Path) -> list[Entry]:
    """Every file of a folder, in the order of their names; or the one file."""
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    return [read_entry(file) for file in files]
