"""Guarded tensors: memory of their own between guard zones, so that a stray access shows.

A kernel gets each input as a view into a buffer that holds nothing else. Before, behind and, for
strided views, between the elements lies a pattern that reads as NaN in float32: a kernel that reads
it answers NaN, and one that writes it, or the tensor, is found out by comparing both with what they
held. Strides and the address modulo 256 bytes are those of the original, because the families of
layouts are about them.

Not covered: buffers beyond ``LARGEST`` bytes, in which only the elements are written and compared,
strides and alignment as ever (what lies between reads as 0); and memory on a device, where the
bundled kernel's acceptance has guard zones of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from dmverify.memory import untouched
from dmverify.spec.case import F32, U8

ZONE = 4096  # bytes on each side
ALIGNMENT = 256
LARGEST = 2**28
NAN_PATTERN = np.uint8(0xFF)  # four of them are a NaN


@dataclass(frozen=True, eq=False)
class GuardedArray:
    """A tensor with its surroundings.

    Attributes:
        name: Name of the tensor.
        view: What a kernel gets.
        memory: The whole buffer, as bytes; of a large one, the bytes of its elements.
        due: What the elements must still hold.
        around: The bytes of the buffer that belong to none, in one array or more.
    """

    name: str
    view: F32
    memory: U8
    due: F32
    around: Callable[[], Iterable[U8]]

    def corruption(self) -> str:
        """What was written, in words; empty if nothing."""
        other = self.view.view(np.uint32) != self.due.view(np.uint32)
        within = _other_bytes(self.view[other], self.due[other]) if other.any() else 0
        outside = sum(int((some != NAN_PATTERN).sum()) for some in self.around())
        said = [f"{within} bytes of input {self.name}"] if within else []
        said += [f"{outside} bytes around input {self.name}"] if outside else []
        return " and ".join(said)


def guard(name: str, array: F32) -> GuardedArray:
    """A copy of a tensor between guard zones, with its strides and alignment.

    Args:
        name: Name of the tensor, for reports.
        array: Any shape and strides; what the copy is compared with, so nobody may write to it.
    """
    if not array.size:
        return GuardedArray(name, np.array(array), np.zeros(0, np.uint8), array, tuple)
    low, high = byte_bounds(array)
    size = high - low + 2 * ZONE + ALIGNMENT
    large = size > LARGEST
    memory: U8 = untouched(size) if large else np.full(size, NAN_PATTERN)
    start = ZONE + (low - memory.ctypes.data - ZONE) % ALIGNMENT
    offset = start + (array.ctypes.data - low)  # negative strides begin at the far end
    view: F32 = np.ndarray(array.shape, np.float32, memory, offset, array.strides)
    view[...] = array
    if large:
        return GuardedArray(name, view, _bytes_of(view, memory, offset), array, tuple)
    if array.flags.c_contiguous:
        zones = (memory[:offset], memory[offset + array.nbytes :])
        return GuardedArray(name, view, memory, array, lambda: zones)
    inside = _inside(view, memory.size, offset)
    return GuardedArray(name, view, memory, array, lambda: (memory[~inside],))


def _other_bytes(got: F32, due: F32) -> int:
    return int((got.view(np.uint8) != due.view(np.uint8)).sum())


def layout(array: F32) -> dict[str, Any]:
    """How a tensor lies in memory, for ``laid_out`` in another process."""
    return {"strides": list(array.strides), "address": array.ctypes.data % ALIGNMENT}


def laid_out(array: F32, *, strides: Sequence[int], address: int) -> F32:
    """A copy of an array with other strides and another address.

    Args:
        array: Array of any layout.
        strides: In bytes, one an axis; entries may share memory where they are equal.
        address: Address of the first element, modulo ``ALIGNMENT``.
    """
    if not array.size:
        return array
    steps = [(length - 1) * stride for length, stride in zip(array.shape, strides, strict=True)]
    below = -sum(step for step in steps if step < 0)
    size = below + sum(step for step in steps if step > 0) + array.itemsize + ALIGNMENT
    memory: U8 = untouched(size) if size > LARGEST else np.zeros(size, np.uint8)
    first = below + (address - memory.ctypes.data - below) % ALIGNMENT
    view: F32 = np.ndarray(array.shape, np.float32, memory, first, tuple(strides))
    view[...] = array
    return view


def _bytes_of(view: F32, memory: U8, offset: int) -> U8:
    """The bytes of the elements alone, where they lie."""
    shape, strides = (*view.shape, view.itemsize), (*view.strides, 1)
    return np.ndarray(shape, np.uint8, memory, offset, strides)


def _inside(view: F32, size: int, offset: int) -> np.typing.NDArray[np.bool_]:
    """Marks the bytes of every element through a view of the same strides."""
    inside = np.zeros(size, dtype=bool)
    shape, strides = (*view.shape, view.itemsize), (*view.strides, 1)
    np.ndarray(shape, np.bool_, inside, offset, strides)[...] = True
    return inside
