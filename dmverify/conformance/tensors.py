"""Safetensors files of float32 numbers, those that BF16 holds in two bytes.

Recordings keep answers in them, and processes get inputs and give answers in them. The library
reads; it cannot write BF16 from numpy, so the header is written here: a length, JSON, and the data.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, deserialize

from dmverify.errors import AnswerError, InputError, KernelError
from dmverify.files import read_regular
from dmverify.spec.case import F32, beyond_bf16

READ: dict[str, tuple[npt.DTypeLike, int]] = {"F32": ("<f4", 0), "BF16": ("<u2", 16)}
NO_METADATA: Mapping[str, str] = MappingProxyType({})
HEADER = 1 << 16  # bytes that a file may have beside its numbers


def encode(tensors: Iterable[tuple[str, F32]], metadata: Mapping[str, str] = NO_METADATA) -> bytes:
    """A whole file, with texts beside the tensors; the same of both give the same bytes."""
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    parts: list[bytes] = []
    start = 0
    for name, array in tensors:
        kind, data = _packed(np.ascontiguousarray(array).reshape(array.shape))
        end = start + len(data)
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": (start, end)}
        parts.append(data)
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def _packed(array: F32) -> tuple[str, bytes]:
    if beyond_bf16(array).any():
        return "F32", array.astype("<f4", copy=False).tobytes()
    return "BF16", (array.view(np.uint32) >> np.uint32(16)).astype("<u2").tobytes()


def decode(content: bytes) -> dict[str, F32]:
    """The tensors of a file as float32, which holds both types exactly.

    Raises:
        ValueError: If it is no whole safetensors file.
        AnswerError: If a tensor has another type.
    """
    try:
        stored = deserialize(content)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    return {name: _array(name, entry) for name, entry in stored}


def texts(content: bytes) -> dict[str, str]:
    """The texts beside the tensors of a file that ``decode`` accepts."""
    (length,) = struct.unpack_from("<Q", content)
    found: dict[str, str] = json.loads(content[8 : 8 + length]).get("__metadata__", {})
    return found


def read(
    path: Path, *, largest: int, required: tuple[str, ...], optional: tuple[str, ...]
) -> dict[str, F32]:
    """The tensors that a program wrote.

    Args:
        path: The file; a link is none.
        largest: Bytes that it may have.
        required: Names that must be there.
        optional: Names that may be.

    Raises:
        KernelError: If the file is missing, partial, too large or no safetensors file.
        AnswerError: For a missing or unknown tensor, or another type.
    """
    try:
        found = decode(read_regular(path, largest=largest, follow=False))
    except AnswerError:
        raise
    except (OSError, ValueError, InputError) as error:
        why = error.value if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        raise KernelError(
            f"outputs file: {why}",
            rule="the outputs are one complete safetensors file when the answer comes",
            fix="write it under another name, close it, rename it, then answer",
        ) from error
    require_names(found, required=required, optional=optional)
    return found


def require_names(
    found: Iterable[str], *, required: tuple[str, ...], optional: tuple[str, ...]
) -> None:
    """Raises AnswerError unless the names are the required ones, and optional ones perhaps."""
    names = sorted(found)
    missing = [name for name in required if name not in names]
    extra = [name for name in names if name not in required + optional]
    if missing or extra:
        raise AnswerError(
            f"tensors {', '.join(names) or 'none'}",
            rule=f"the outputs are {', '.join(required)}, and may have {', '.join(optional)}",
            fix=f"missing: {', '.join(missing) or 'none'}; unknown: {', '.join(extra) or 'none'}",
        )


def _array(name: str, entry: dict[str, Any]) -> F32:
    kind, data = entry["dtype"], entry["data"]
    if kind not in READ:
        raise AnswerError(
            f"{name} of type {kind}",
            rule=f"outputs are {' or '.join(READ)}",
            fix="return float32, or one of these formats",
        )
    dtype, shift = READ[kind]
    raw: npt.NDArray[Any] = np.frombuffer(bytes(data), dtype)
    if shift:
        raw = (raw.astype(np.uint32) << np.uint32(shift)).view(np.float32)
    return np.asarray(raw, np.float32).reshape(tuple(entry["shape"]))
