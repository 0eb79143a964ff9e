"""Safetensors files, read part by part.

The library reads a whole file, or only formats that numpy has; BF16 is none of these. Of a file of
gigabytes this reads the header, and the tensors of the chosen case. Layout: eight bytes that hold
the header's length, the header (JSON), the numbers.
"""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from dmverify.conformance.tensor_files.stored import (
    BITS,
    Entry,
    Raw,
    TensorFile,
    broken,
    require_shape_of_file,
)

LARGEST_HEADER = 1 << 22  # bytes: some 40,000 tensors
METADATA = "__metadata__"


def read_safetensors(path: Path, file: FileIO) -> TensorFile:
    """What an open file holds.

    Raises:
        InputError: If it is no whole safetensors file, or its header is too large.
    """
    size = os.fstat(file.fileno()).st_size
    start = file.read(8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
    if length > min(LARGEST_HEADER, size - 8):
        raise broken(path, f"its header is beyond {LARGEST_HEADER} bytes or beyond its end")
    header = _header(path, _read_exactly(path, file, length))
    settings = header.pop(METADATA, {})
    if not isinstance(settings, dict):
        raise broken(path, f"{METADATA} is no object")
    opened = Opened(path, file, data=8 + length, size=size)
    entries = {name: _entry(opened, name, row) for name, row in header.items()}
    return TensorFile(path, entries, {name: str(text) for name, text in settings.items()})


@dataclass(frozen=True)
class Opened:
    """A file that is being read.

    Attributes:
        path: What it is called.
        file: Open for reading.
        data: First byte of the numbers, behind the header.
        size: Bytes of the whole file.
    """

    path: Path
    file: FileIO
    data: int
    size: int


def _header(path: Path, text: bytearray) -> dict[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise broken(path, "its header is no JSON that names each tensor once") from error
    if not isinstance(found, dict):
        raise broken(path, "its header is no object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):  # which of two tensors is meant, readers do not agree on
        raise ValueError("a name twice")
    return found


def _entry(opened: Opened, name: str, row: object) -> Entry:
    path, data = opened.path, opened.data
    fields = row if isinstance(row, dict) else {}
    kind, shape, ends = (fields.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not (isinstance(kind, str) and isinstance(shape, list) and isinstance(ends, list)):
        raise broken(path, f"the header says nothing of {name!r:.80} that can be read")
    if (
        len(ends) != 2
        or not all(type(end) is int and end >= 0 for end in ends)
        or ends[1] < ends[0]
    ):
        raise broken(path, f"{name!r:.80} begins and ends nowhere")
    start, end = ends
    found = require_shape_of_file(path, name, tuple(shape))
    entry = Entry(name, kind, found, partial(_raw, path, opened.file, data + start, kind, found))
    if data + end > opened.size or (
        kind in BITS and entry.count * np.dtype(BITS[kind]).itemsize != end - start
    ):
        raise broken(path, f"{name!r:.80} has another number of bytes than its shape")
    return entry


def _raw(path: Path, file: FileIO, start: int, kind: str, shape: tuple[int, ...]) -> Raw:
    dtype = np.dtype(BITS[kind])
    count = int(np.prod(shape, dtype=object))
    file.seek(start)
    content = _read_exactly(path, file, count * dtype.itemsize)
    return np.frombuffer(content, dtype).reshape(shape)


def _read_exactly(path: Path, file: FileIO, count: int) -> bytearray:
    """Reads ``count`` bytes; one read of a plain file may give fewer than it was asked for."""
    content = bytearray(count)
    view, got = memoryview(content), 0
    while got < count:
        chunk = file.readinto(view[got:])
        if not chunk:
            raise broken(path, "it ends before its last tensor")
        got += chunk
    return content
