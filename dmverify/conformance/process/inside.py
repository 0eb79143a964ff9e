"""Files of what a process shows of a kernel's inside: its exact numbers, and its machine code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save_file

from dmverify.conformance.tensors import HEADER
from dmverify.errors import AnswerError, InputError, KernelError
from dmverify.files import read_regular
from dmverify.spec.case import Internals
from dmverify.spec.problem import Problem

FLAG = "norm_divides"  # the one that is no tensor
NUMBERS = tuple(field.name for field in fields(Internals) if field.name != FLAG)
MATRICES = 6  # of (queries, keys) a head: weights, p, dp, ds, ds_cast, p_cast
FLOAT64 = 8  # bytes


def room_inside(problem: Problem) -> int:
    """Bytes that a file of a case's internals may have."""
    shapes = problem.shapes()
    operands = sum(prod(shapes[name]) for name in ("q", "k", "v", "do", "o"))
    rows = 3 * prod(shapes["lse"])  # norm, shift, delta
    return HEADER + FLOAT64 * (operands + rows + MATRICES * prod(shapes["lse"]) * problem.keys)


def write_tensors(target: str, tensors: Mapping[str, Any]) -> None:
    """Writes a file under another name first: half a file is never seen."""
    part = f"{target}.part"
    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, part)
    os.replace(part, target)


def write_internals(target: str, found: Internals) -> dict[str, object]:
    """Writes the numbers; returns what the answer says beside them."""
    write_tensors(target, {name: getattr(found, name) for name in NUMBERS})
    return {"shown": True, FLAG: bool(found.norm_divides)}


def read_internals(path: Path, answer: dict[str, Any], *, largest: int) -> Internals | None:
    """The numbers of a file, None if the answer says that there are none.

    Raises:
        KernelError: If the file is missing, partial, too large or no safetensors file.
        AnswerError: If it has other tensors than it must, or of another type than float64.
    """
    if answer.get("shown") is not True:
        return None
    found = _read(path, largest)
    wrong = sorted(name for name, array in found.items() if array.dtype != np.float64)
    if found.keys() != set(NUMBERS) or wrong or not isinstance(answer.get(FLAG), bool):
        raise AnswerError(
            f"internals {', '.join(sorted(found)) or 'none'}",
            rule=f"internals are {', '.join(NUMBERS)}, all float64, and {FLAG} in the answer",
            fix=f"of another type: {', '.join(wrong) or 'none'}",
        )
    numbers: dict[str, Any] = {**found, FLAG: answer[FLAG]}
    return Internals(**numbers)


def write_code(target: str, cubins: Mapping[str, bytes]) -> None:
    """Writes machine code, one tensor of bytes a name."""
    write_tensors(target, {name: np.frombuffer(code, np.uint8) for name, code in cubins.items()})


def read_code(path: Path, answer: dict[str, Any], *, largest: int) -> dict[str, bytes]:
    """Machine code by name.

    Raises:
        KernelError: If the file is missing, partial, too large or no safetensors file.
    """
    return {name: array.tobytes() for name, array in _read(path, largest).items()}


def _read(path: Path, largest: int) -> dict[str, npt.NDArray[Any]]:
    try:
        found: dict[str, npt.NDArray[Any]] = load(read_regular(path, largest=largest, follow=False))
    except (OSError, SafetensorError, KeyError, ValueError, InputError) as error:
        why = error.value if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        raise KernelError(
            f"outputs file: {why}",
            rule="the outputs are one complete safetensors file when the answer comes",
            fix="write it under another name, close it, rename it, then answer",
        ) from error
    return found
