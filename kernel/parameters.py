"""What each kernel is told: fields and places of its parameters, read from ``params.cuh``.

The lists in that file are the only definition: the compiler makes a struct and a signature of each,
and what the host packs is checked against the same names and types here.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .errors import BuildError
from .limits import check_int

TEXT = Path(__file__).with_name("params.cuh")
LIST = re.compile(r"^#define (\w+)\((V[^)]*)\) ?((?:.*\\\n)*.*)$", re.MULTILINE)
ITEM = re.compile(r"\b(\w+)\(([^()]+)\)")  # a field, or another list
NUMBERS = {"int": 4, "float": 4, "i64": 8}
POINTER = 8


@dataclass(frozen=True)
class Field:
    """One parameter: its name, and its type as CUDA has it."""

    name: str
    type: str

    @property
    def size(self) -> int:
        """Bytes, and the alignment too."""
        return NUMBERS.get(self.type, POINTER)

    def argument(self, value: Any) -> Any:
        """The value with the width that the kernel declares; tensors and None become pointers.

        Raises:
            UnsupportedError: An integer that does not fit 32 bits.
            TypeError: It is nothing of this type.
        """
        try:
            return WIDTHS.get(self.type, _pointer)(value)
        except (TypeError, AttributeError) as error:
            raise TypeError(f"{self.type} {self.name} is no {type(value).__name__}") from error


def _pointer(value: Any) -> Any:
    return 0 if value is None else value.data_ptr()


WIDTHS: Mapping[str, Callable[[Any], Any]] = {
    "int": lambda value: ctypes.c_int(check_int(value)),
    "float": ctypes.c_float,
    "i64": ctypes.c_longlong,
}


@cache
def lists() -> Mapping[str, tuple[tuple[str, ...], str]]:
    """The lists of params.cuh by name: their parameters, and their text."""
    text = TEXT.read_text()
    found: dict[str, tuple[tuple[str, ...], str]] = {}
    for name, parameters, body in LIST.findall(text):
        known = tuple(word.strip() for word in parameters.split(","))
        found.setdefault(name, (known, body.replace("\\\n", " ")))  # with what a dump adds
    return found


def _fields(name: str, given: tuple[str, ...], *, dump: bool) -> Iterator[Field]:
    """The fields of a list, those of lists in it in their places."""
    known, body = lists()[name]
    for word, inside in ITEM.findall(_pasted(body, known, given)):
        if word in ("V", "A"):
            type_, field = (part.strip() for part in inside.split(","))
            yield Field(field, type_)
        elif dump or not word.endswith("_DUMP"):
            yield from _fields(word, tuple(part.strip() for part in inside.split(",")), dump=dump)


def _pasted(body: str, known: tuple[str, ...], given: tuple[str, ...]) -> str:
    """The text with ``P##`` replaced by what stands for P."""
    for parameter, value in zip(known, given, strict=True):
        body = body.replace(f"{parameter}##", value)
    return body


@cache
def fields(entry: str, *, dump: bool = False) -> tuple[Field, ...]:
    """The parameters of a kernel in order.

    Args:
        entry: Its name, such as ``quantise_rest``.
        dump: Of a dump build, which has more.

    Raises:
        BuildError: There is no such kernel.
    """
    name = f"{entry.upper()}_FIELDS"
    if name not in lists():
        raise BuildError(entry, rule="params.cuh lists its parameters", fix="name a kernel")
    return tuple(_fields(name, ("V", "A", "S"), dump=dump))


def places(entry: str, *, dump: bool = False) -> tuple[tuple[int, int], ...]:
    """Offset and size of each parameter, as a struct of them lies in memory."""
    found, end = [], 0
    for field in fields(entry, dump=dump):
        start = -(-end // field.size) * field.size
        found.append((start, field.size))
        end = start + field.size
    return tuple(found)


@cache
def _ways(entry: str, dump: bool) -> Mapping[str, Callable[[Any], Any]]:
    """By field, how a value becomes an argument: looked up once, since every launch packs."""
    return {x.name: WIDTHS.get(x.type, _pointer) for x in fields(entry, dump=dump)}


def pack(entry: str, values: Mapping[str, object], *, dump: bool = False) -> tuple[object, ...]:
    """The values in the order of the kernel's parameters.

    Args:
        entry: Its name.
        values: By field, each exactly once.
        dump: Of a dump build.

    Raises:
        BuildError: A field is missing, or a name is none.
        UnsupportedError: An integer does not fit 32 bits.
        TypeError: A value is not of its field's type.
    """
    ways = _ways(entry, dump)
    if values.keys() != ways.keys():
        rule = f"{entry} takes the fields that params.cuh lists, each once"
        odd = sorted(values.keys() ^ ways.keys())
        raise BuildError(odd, rule=rule, fix="pass what is missing, leave out the rest")
    try:
        return tuple([way(values[name]) for name, way in ways.items()])
    except (TypeError, AttributeError):
        return tuple(x.argument(values[x.name]) for x in fields(entry, dump=dump))  # which says
