"""NPZ files: a ZIP archive of arrays, as ``numpy.savez`` and ``savez_compressed`` write it.

The header of an array is read from its first bytes and held to the archive's own size of it; no
object arrays, which are pickles. BF16 arrays of ml_dtypes are written by numpy as two bytes without
meaning (``V2``) and read as BF16. Arrays without extent are settings.
"""

from __future__ import annotations

import io
from functools import partial
from io import FileIO
from pathlib import Path
from tokenize import TokenError
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.lib import format as npy

from dmverify.conformance.tensor_files.archive import Archive
from dmverify.conformance.tensor_files.stored import (
    BITS,
    Entry,
    Raw,
    Setting,
    TensorFile,
    broken,
    require_shape_of_file,
)

HEAD = 1 << 14  # bytes in which an array's header ends
# What numpy raises for a header that it cannot parse.
UNREADABLE = (ValueError, KeyError, TypeError, SyntaxError, TokenError, RecursionError, MemoryError)
HEADERS = MappingProxyType({(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0})
LARGEST_SETTING = 256  # bytes
SUFFIX = ".npy"
FORMATS = MappingProxyType({"V2": "BF16", "f2": "F16", "f4": "F32", "f8": "F64", "i1": "I8"})


def read_npz(path: Path, file: FileIO) -> TensorFile:
    """What an open file holds.

    Raises:
        InputError: If it is no archive of arrays, or one of its arrays is not as large as it says.
    """
    archive = Archive(path, file)
    entries: dict[str, Entry] = {}
    settings: dict[str, Setting] = {}
    for member in archive.sizes:
        name = member.removesuffix(SUFFIX)
        entry = _entry(path, archive, member, name)
        if entry.shape == ():
            settings[name] = entry.read().item()
        else:
            entries[name] = entry
    return TensorFile(path, entries, settings)


def _entry(path: Path, archive: Archive, member: str, name: str) -> Entry:
    head = io.BytesIO(archive.head(member, HEAD))
    try:
        shape, by_columns, dtype = HEADERS[npy.read_magic(head)](head)
    except UNREADABLE as error:
        raise broken(path, f"{member!r:.80} is no array ({error!s:.100})") from error
    shape = require_shape_of_file(path, name, shape)
    if dtype.hasobject or dtype.fields or dtype.subdtype:
        raise broken(path, f"{member!r:.80} is no array of numbers")
    start, kind = head.tell(), FORMATS.get(f"{dtype.kind}{dtype.itemsize}", str(dtype))
    read = partial(_raw, archive, member, start, dtype, shape, "F" if by_columns else "C")
    entry = Entry(name, kind, shape, read)
    if shape == () and dtype.itemsize > LARGEST_SETTING:
        raise broken(path, f"{member!r:.80} is no setting")
    if archive.sizes[member] != start + entry.count * dtype.itemsize:
        raise broken(path, f"{member!r:.80} has another number of bytes than its shape")
    return entry


def _raw(
    archive: Archive,
    member: str,
    start: int,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    order: Any,
) -> Raw:
    count = int(np.prod(shape, dtype=object)) * dtype.itemsize
    content = archive.read(member, start=start, count=count)
    kind = FORMATS.get(f"{dtype.kind}{dtype.itemsize}")
    bits = np.dtype(BITS["BF16"]) if kind == "BF16" else dtype
    return np.frombuffer(content, bits).reshape(shape, order=order)
