"""NPZ files: a ZIP archive of arrays, as ``numpy.savez`` and ``savez_compressed`` write it.

The header of an array is read from its first bytes and held to the archive's own size of it; no
object arrays, which are pickles. Arrays of ml_dtypes are written by numpy as bytes without meaning:
two of them (``V2``) are BF16, and one (``V1``) may be any format, so it is said beside them. E5M2
alone is written as ``f1``, which numpy itself does not read. Arrays without extent are settings.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import partial
from io import FileIO
from pathlib import Path
from tokenize import TokenError
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.lib import format as npy

from dmverify.conformance.tensor_files.archive import Archive
from dmverify.conformance.tensor_files.stored import (
    BITS,
    BYTES,
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
FORMATS = MappingProxyType(
    {
        **{"V2": "BF16", "f2": "F16", "f4": "F32", "f8": "F64"},
        **{"i1": "I8", "u1": BYTES, "V1": BYTES},
    }
)
E5M2, AS_BYTES = b"'descr': '<f1'", b"'descr': '|u1'"


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
    text = archive.head(member, HEAD)
    head = io.BytesIO(text.replace(E5M2, AS_BYTES, 1))
    try:
        shape, by_columns, dtype = HEADERS[npy.read_magic(head)](head)
    except UNREADABLE as error:
        raise broken(path, f"{member!r:.80} is no array ({error!s:.100})") from error
    shape = require_shape_of_file(path, name, shape)
    if dtype.hasobject or dtype.fields or dtype.subdtype:
        raise broken(path, f"{member!r:.80} is no array of numbers")
    start, kind = head.tell(), FORMATS.get(f"{dtype.kind}{dtype.itemsize}", str(dtype))
    if E5M2 in text[:start]:
        kind = "F8_E5M2"
    if dtype.kind == "V":
        dtype = np.dtype(BITS.get(kind, dtype))
    stored = Stored(start, dtype, shape, "F" if by_columns else "C")
    read = partial(_raw, archive, member, stored)
    entry = Entry(name, kind, shape, read)
    if shape == () and dtype.itemsize > LARGEST_SETTING:
        raise broken(path, f"{member!r:.80} is no setting")
    if archive.sizes[member] != start + entry.count * dtype.itemsize:
        raise broken(path, f"{member!r:.80} has another number of bytes than its shape")
    return entry


@dataclass(frozen=True)
class Stored:
    """Where an array's numbers lie in its member, and as what.

    Attributes:
        start: Their first byte.
        dtype: What each one is.
        shape: Shape of the array.
        order: ``C``, the last axis varies fastest, or ``F``, the first one does.
    """

    start: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]


def _raw(archive: Archive, member: str, stored: Stored) -> Raw:
    count = int(np.prod(stored.shape, dtype=object)) * stored.dtype.itemsize
    content = archive.read(member, start=stored.start, count=count)
    return np.frombuffer(content, stored.dtype).reshape(stored.shape, order=stored.order)
