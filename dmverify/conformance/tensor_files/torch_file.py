"""PT files, as ``torch.save`` writes them: tensors and settings, no other object, and no torch.

A PT file is a ZIP archive: numbers lie in members of their own, uncompressed, and ``data.pkl`` says
how they make tensors. That is a pickle, a program. It is not run: its instructions are read one by
one, and those that build what ``torch.save`` writes of tensors, dictionaries, numbers and texts are
followed; any other, and any name but those of ``TENSORS`` and ``STORAGES``, refuses the file.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from io import FileIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

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

PROGRAM = "data.pkl"
LARGEST_PROGRAM = 1 << 20  # bytes: some 5,000 tensors
DEPTH = 8  # of dictionaries in dictionaries
UNTYPED = "untyped"
PLAIN = (
    "save a dictionary of tensors of bfloat16, float16, float32, float64, float8_e4m3fn, "
    "float8_e5m2, int8 or uint8, and of nothing else but numbers and texts"
)
STORAGES = MappingProxyType(
    {
        "torch BFloat16Storage": "BF16",
        "torch HalfStorage": "F16",
        "torch FloatStorage": "F32",
        "torch DoubleStorage": "F64",
        "torch CharStorage": "I8",
        "torch ByteStorage": BYTES,
        "torch.storage UntypedStorage": UNTYPED,
    }
)
DTYPES = MappingProxyType({"torch float8_e4m3fn": "F8_E4M3", "torch float8_e5m2": "F8_E5M2"})
"""Of storages without a type, one byte a number."""
DICT, PARAMETER = "collections OrderedDict", "torch._utils _rebuild_parameter"
TENSOR, TENSOR_OF_BYTES = "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor_v3"


class _Mark:
    """Where a run of values begins on the stack."""


@dataclass(frozen=True)
class _Name:
    """A name that a program may call or refer to."""

    text: str


@dataclass(frozen=True)
class _Storage:
    """Numbers in a member of their own."""

    format: str
    member: str
    count: int


@dataclass(frozen=True)
class _Tensor:
    """A view of a storage."""

    storage: _Storage
    offset: int
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]


def read_torch(path: Path, file: FileIO) -> TensorFile:
    """What an open file holds.

    Raises:
        InputError: If it is no archive of ``torch.save``, or holds anything but tensors, numbers
            and texts, or a tensor beyond its storage.
    """
    archive = Archive(path, file)
    member = next((name for name in archive.sizes if name.split("/")[1:] == [PROGRAM]), None)
    if member is None:
        raise broken(path, f"it has no {PROGRAM}, as torch.save writes it since 2020")
    root = member.removesuffix(PROGRAM)
    if f"{root}byteorder" in archive.sizes and archive.head(f"{root}byteorder", 8) != b"little":
        raise broken(path, "its numbers are not little-endian")
    if archive.sizes[member] > LARGEST_PROGRAM:
        raise broken(path, f"its {PROGRAM} has more than {LARGEST_PROGRAM} bytes")
    try:
        found = _Machine().run(archive.head(member, LARGEST_PROGRAM))
    except Exception as error:  # each instruction has its own way to meet a value it cannot take
        what = f"{PROGRAM} builds something else than tensors ({error!s:.100})"
        raise broken(path, what, fix=PLAIN) from error
    entries: dict[str, Entry] = {}
    settings: dict[str, Setting] = {}
    for name, value in _flat(path, found, "", set()):
        if isinstance(value, _Tensor):
            entries[name] = _entry(path, archive, root, name, value)
        elif isinstance(value, (bool, int, float, str)):
            settings[name] = value
    return TensorFile(path, entries, settings)


def _flat(path: Path, found: object, prefix: str, seen: set[int]) -> list[tuple[str, object]]:
    """Name and value of everything in dictionaries in a dictionary, each of them met once."""
    if not isinstance(found, dict) or id(found) in seen or prefix.count(".") > DEPTH:
        what = f"it is no dictionary of tensors, {DEPTH} deep at most"
        raise broken(path, what, fix=PLAIN)
    seen.add(id(found))  # one that holds itself has no end
    pairs: list[tuple[str, object]] = []
    for key, value in found.items():
        if isinstance(value, dict):
            pairs += _flat(path, value, f"{prefix}{key}.", seen)
        else:
            pairs.append((f"{prefix}{key}", value))
    return pairs


def _entry(path: Path, archive: Archive, root: str, name: str, tensor: _Tensor) -> Entry:
    storage = tensor.storage
    member, dtype = f"{root}data/{storage.member}", np.dtype(BITS[storage.format])
    shape = require_shape_of_file(path, name, tensor.shape)
    strides = require_shape_of_file(path, name, tensor.strides)
    last = tensor.offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=False))
    size = archive.sizes.get(member, -1)
    if (
        len(strides) != len(shape)
        or tensor.offset < 0
        or (0 not in shape and last >= storage.count)
        or size != storage.count * dtype.itemsize
        or not archive.is_stored(member)
    ):
        raise broken(path, f"tensor {name!r:.80} does not lie in its storage")
    return Entry(name, storage.format, shape, partial(_raw, archive, member, tensor, dtype))


def _raw(archive: Archive, member: str, tensor: _Tensor, dtype: np.dtype[Any]) -> Raw:
    if 0 in tensor.shape:
        return np.empty(tensor.shape, dtype)
    steps = zip(tensor.shape, tensor.strides, strict=True)
    span = 1 + sum((n - 1) * step for n, step in steps)
    start = tensor.offset * dtype.itemsize
    content = archive.read(member, start=start, count=span * dtype.itemsize)
    strides = tuple(step * dtype.itemsize for step in tensor.strides)
    flat = np.frombuffer(content, dtype)
    return np.lib.stride_tricks.as_strided(flat, tensor.shape, strides, writeable=False)


class _Machine:
    """Follows the instructions that build tensors; a value that one cannot take raises."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, program: bytes) -> object:
        """What a program leaves."""
        for instruction, argument, _ in pickletools.genops(program):
            if instruction.name in CONSTANTS:
                self.stack.append(CONSTANTS[instruction.name])
            elif instruction.name in VALUES:
                self.stack.append(argument)
            elif instruction.name != "PROTO" and instruction.name != "STOP":
                STEPS[instruction.name](self, argument)
        return self.stack.pop()

    def run_of_values(self) -> list[Any]:
        """What lies above the last mark."""
        values: list[Any] = []
        while not isinstance(top := self.stack.pop(), _Mark):
            values.append(top)
        return values[::-1]

    def begin(self, _: object) -> None:
        """A mark, a dictionary or a list."""
        self.stack.append(_Mark())

    def empty_dict(self, _: object) -> None:
        self.stack.append({})

    def put(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    def memoize(self, _: object) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def get(self, place: int) -> None:
        self.stack.append(self.memo[place])

    def name(self, text: str) -> None:
        self.stack.append(_Name(_known(text)))

    def stack_name(self, _: object) -> None:
        parts = self.stack[-2:]
        del self.stack[-2:]
        self.name(" ".join(parts))

    def tuple_of_run(self, _: object) -> None:
        self.stack.append(tuple(self.run_of_values()))

    def tuple_of(self, count: int, _: object) -> None:
        values = tuple(self.stack[-count:])
        del self.stack[-count:]
        self.stack.append(values)

    def set_item(self, _: object) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._fill([key, value])

    def set_items(self, _: object) -> None:
        self._fill(self.run_of_values())

    def _fill(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict or not all(type(key) in (str, int) for key in values[::2]):
            raise ValueError("items of no dictionary, or named by no text")
        target.update(zip(values[::2], values[1::2], strict=True))

    def storage(self, _: object) -> None:
        what, kind, member, _device, count = self.stack.pop()
        if what != "storage" or not isinstance(member, str) or type(count) is not int:
            raise ValueError("no storage")
        self.stack.append(_Storage(STORAGES[kind.text], member, count))

    def call(self, _: object) -> None:
        arguments, name = self.stack.pop(), self.stack.pop()
        self.stack.append(CALLS[name.text](*arguments))

    def drop_state(self, _: object) -> None:
        self.stack.pop()  # of a module's dictionary: the versions of its parts


def _known(text: str) -> str:
    if text not in CALLS and text not in STORAGES and text not in DTYPES:
        raise ValueError(f"the name {text:.60}")
    return text


def _tensor_of_bytes(
    storage: _Storage,
    offset: int,
    shape: Any,
    strides: Any,
    _grad: object,
    _hooks: object,
    dtype: _Name,
    *_: object,
) -> _Tensor:
    if storage.format != UNTYPED:
        raise ValueError("a storage of two types")
    return _tensor(replace(storage, format=DTYPES[dtype.text]), offset, shape, strides)


def _tensor(storage: _Storage, offset: int, shape: Any, strides: Any, *_: object) -> _Tensor:
    if not isinstance(storage, _Storage) or type(offset) is not int or storage.format == UNTYPED:
        raise ValueError("no tensor")
    if not isinstance(shape, tuple) or not isinstance(strides, tuple):
        raise ValueError("no shape")
    return _Tensor(storage, offset, shape, strides)


CALLS: Mapping[str, Callable[..., object]] = MappingProxyType(
    {
        DICT: dict,
        TENSOR: _tensor,
        TENSOR_OF_BYTES: _tensor_of_bytes,
        PARAMETER: lambda data, *_: data,
    }
)
CONSTANTS: Mapping[str, object] = MappingProxyType(
    {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
)
VALUES = frozenset(
    {
        *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
        *("BINUNICODE", "SHORT_BINUNICODE"),
    }
)
STEPS: Mapping[str, Callable[[_Machine, Any], None]] = MappingProxyType(
    {
        "MARK": _Machine.begin,
        "EMPTY_DICT": _Machine.empty_dict,
        "BINPUT": _Machine.put,
        "LONG_BINPUT": _Machine.put,
        "MEMOIZE": _Machine.memoize,
        "BINGET": _Machine.get,
        "LONG_BINGET": _Machine.get,
        "GLOBAL": _Machine.name,
        "STACK_GLOBAL": _Machine.stack_name,
        "TUPLE": _Machine.tuple_of_run,
        "TUPLE1": lambda machine, _: machine.tuple_of(1, _),
        "TUPLE2": lambda machine, _: machine.tuple_of(2, _),
        "TUPLE3": lambda machine, _: machine.tuple_of(3, _),
        "SETITEM": _Machine.set_item,
        "SETITEMS": _Machine.set_items,
        "BINPERSID": _Machine.storage,
        "REDUCE": _Machine.call,
        "BUILD": _Machine.drop_state,
        "FRAME": lambda machine, _: None,
    }
)
