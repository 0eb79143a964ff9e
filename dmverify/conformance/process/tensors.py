"""Safetensors files between this project and a process: BF16 in, BF16 or F32 out."""

from __future__ import annotations

import json
import math
import stat
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize

from dmverify.errors import AnswerError, KernelError
from dmverify.spec.case import F32

READ: dict[str, tuple[Any, int]] = {"F32": (np.dtype("<f4"), 0), "BF16": (np.dtype("<u2"), 16)}


def write_bf16(path: Path, tensors: Iterable[tuple[str, F32]]) -> None:
    """Writes BF16 numbers, given as float32, in C order."""
    header: dict[str, object] = {}
    parts, start = [], 0
    for name, array in tensors:
        bits = (np.ascontiguousarray(array).view(np.uint32) >> np.uint32(16)).astype("<u2")
        parts.append(bits.tobytes())
        end = start + len(parts[-1])
        header[name] = {"dtype": "BF16", "shape": array.shape, "data_offsets": (start, end)}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def require_file(path: Path, *, largest: float = math.inf) -> None:
    """Raises unless a path is a plain file: a pipe would never end, a link may lead anywhere.

    Args:
        path: The file.
        largest: Bytes that it may have.

    Raises:
        KernelError: If it is missing, of another kind or larger.
    """
    try:
        found = path.lstat()
    except OSError as error:
        raise _no_file(f"{type(error).__name__}: {error}") from error
    if not stat.S_ISREG(found.st_mode):
        raise _no_file(f"no plain file but {stat.filemode(found.st_mode)}")
    if found.st_size > largest:
        raise _no_file(f"{found.st_size} bytes, where the tensors need {largest:.0f} at most")


def _no_file(said: str) -> KernelError:
    return KernelError(
        f"outputs file: {said}",
        rule="the outputs are one complete safetensors file when the answer comes",
        fix="write it under another name, close it, rename it, then answer",
    )


def read(path: Path, *, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, F32]:
    """The tensors of an answer as float32, which holds both types exactly.

    Args:
        path: The file.
        required: Names that must be there.
        optional: Names that may be.

    Raises:
        KernelError: If the file is missing, partial or no safetensors file.
        AnswerError: For a missing or unknown tensor, or another type.
    """
    try:
        stored = deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    except (OSError, SafetensorError, ValueError) as error:
        raise _no_file(f"{type(error).__name__}: {error}") from error
    found = {name: _array(name, entry) for name, entry in stored}
    missing = [name for name in required if name not in found]
    extra = [name for name in found if name not in required + optional]
    if missing or extra:
        raise AnswerError(
            f"tensors {', '.join(sorted(found)) or 'none'}",
            rule=f"the outputs are {', '.join(required)}, and may have {', '.join(optional)}",
            fix=f"missing: {', '.join(missing) or 'none'}; unknown: {', '.join(extra) or 'none'}",
        )
    return found


def _array(name: str, entry: dict[str, object]) -> F32:
    kind, shape, data = entry["dtype"], entry["shape"], entry["data"]
    if kind not in READ:
        raise AnswerError(
            f"{name} of type {kind}", rule=f"outputs are {' or '.join(READ)}", fix="widen it"
        )
    dtype, shift = READ[str(kind)]
    assert isinstance(data, (bytes, bytearray))
    assert isinstance(shape, (list, tuple))
    raw: np.typing.NDArray[Any] = np.frombuffer(bytes(data), dtype)
    if shift:
        raw = (raw.astype(np.uint32) << np.uint32(shift)).view(np.float32)
    return np.asarray(raw, np.float32).reshape(tuple(shape))
