"""What every kind of tensor file gives: names, formats and shapes, and bytes only when asked.

So a shape is held to the others, and to the memory there is, before anything of it is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dmverify.errors import InputError
from dmverify.spec.case import F32
from dmverify.spec.formats import E4M3, E5M2

Raw: TypeAlias = npt.NDArray[Any]
Setting: TypeAlias = bool | int | float | str

BITS = MappingProxyType(
    {
        **{"BF16": "<u2", "F16": "<f2", "F32": "<f4", "F64": "<f8"},
        **{"F8_E4M3": "u1", "F8_E5M2": "u1", "I8": "i1", "U8": "u1"},
    }
)
"""The numpy type of each format's stored numbers; of those that numpy lacks, of their bits."""
CODES = MappingProxyType({"F8_E4M3": E4M3, "F8_E5M2": E5M2})
BYTES = "U8"  # codes of a format that is said beside them, or by nobody
WORDS = MappingProxyType({"e4m3": "F8_E4M3", "e5m2": "F8_E5M2"})
"""Formats that bytes may be said to be of, in the words of contracts."""

DIMENSIONS = 8  # of a tensor, at most


@dataclass(frozen=True, eq=False)
class Entry:
    """One tensor of a file.

    Attributes:
        name: In the file.
        format: A key of ``BITS``, or what the file calls another one.
        shape: Its extents.
        read: Reads its stored numbers, of ``shape``; it holds bytes to their due number first.
    """

    name: str
    format: str
    shape: tuple[int, ...]
    read: Callable[[], Raw]

    @property
    def count(self) -> int:
        """How many numbers it has, of any length of digits."""
        return math.prod(self.shape)

    def said_to_be(self, word: object) -> Entry:
        """The entry, its bytes taken as codes of the FP8 format that ``word`` names.

        Raises:
            InputError: For another word, or for numbers whose format the file knows.
        """
        if self.format != BYTES or str(word).lower() not in WORDS:
            raise InputError(
                f"{self.name!r:.80} of format {self.format!r:.40}, said to be {word!r:.40}",
                rule=f"of bytes, and nothing else, it is said what they are: {' or '.join(WORDS)}",
                fix="leave the word out, or save the tensor as bytes",
            )
        return replace(self, format=WORDS[str(word).lower()])

    def numbers(self) -> F32:
        """Its numbers as float32, none of them rounded.

        Raises:
            InputError: For another format, or a number that float32 has not.
        """
        if self.format == BYTES:
            raise InputError(
                f"tensor {self.name!r:.80} of bytes",
                rule=f"bytes are codes whose format is said: {' or '.join(WORDS)}",
                fix=f"say {self.name}_format where the file says causal",
            )
        if self.format not in BITS:
            raise InputError(
                f"tensor {self.name!r:.80} of format {self.format!r:.40}",
                rule=f"tensors are of {', '.join(kind for kind in BITS if kind != BYTES)}",
                fix="save it as BF16, or as codes with their scales",
            )
        return widen(self.name, self.format, self.read())


@dataclass(frozen=True, eq=False)
class TensorFile:
    """An open file of tensors.

    Attributes:
        path: Where it lies.
        entries: Its tensors by name.
        settings: Single values that lie beside them, by name.
    """

    path: Path
    entries: Mapping[str, Entry]
    settings: Mapping[str, Setting] = field(default_factory=dict)


def widen(name: str, kind: str, raw: Raw) -> F32:
    """Stored numbers as float32.

    Args:
        name: Name of the tensor, for the message.
        kind: A key of ``BITS``.
        raw: The numbers as they lie there, of ``kind``'s numpy type.

    Raises:
        InputError: For a number of float64 that float32 has not.
    """
    if kind in CODES:
        return np.asarray(CODES[kind].decode(raw))
    if kind == "BF16":
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    with np.errstate(over="ignore"):
        single = raw.astype(np.float32)
    if kind == "F64" and not np.array_equal(single, raw, equal_nan=True):
        raise InputError(
            f"tensor {name!r:.80} of float64 numbers that float32 has not",
            rule="inputs are numbers of float32: nothing is rounded as they are read",
            fix="save it as BF16",
        )
    return single


def require_shape_of_file(path: Path, name: str, shape: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape that a file states, as a shape.

    Raises:
        InputError: If it is none.
    """
    whole = all(type(extent) is int and 0 <= extent < 1 << 62 for extent in shape)
    if not whole or len(shape) > DIMENSIONS:
        raise broken(path, f"tensor {name!r:.80} has a shape that is none")
    return shape


def broken(path: Path, what: str, *, fix: str = "save it again, or fetch it again") -> InputError:
    """The error for a file that is not what its name says."""
    rule = "a tensor file is whole, and nothing in it is a program"
    return InputError(f"{path}: {what}", rule=rule, fix=fix)
