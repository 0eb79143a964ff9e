"""Fenced tensors: memory of their own between guard zones, so that a stray access shows.

A kernel gets each input as a view into a buffer that holds nothing else. Before, behind and, for
strided views, between the elements lies a pattern that reads as NaN in float32: a kernel that reads
it answers NaN, and one that writes it, or the tensor, is found out by comparing the buffer with its
copy. Strides and the address modulo 256 bytes are those of the original, because the families of
layouts are about them.

Not covered: buffers beyond ``LARGEST`` bytes (their elements are compared, without guard zones),
and memory on a device, where the bundled kernel's acceptance has guard zones of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.array_utils import byte_bounds

from dmverify.spec.case import F32, U8

ZONE = 4096  # bytes on each side
ALIGNMENT = 256
LARGEST = 2**28
NAN_PATTERN = np.uint8(0xFF)  # four of them are a NaN


@dataclass(frozen=True, eq=False)
class Fenced:
    """A tensor with its surroundings.

    Attributes:
        name: Name of the tensor.
        view: What a kernel gets.
        memory: The whole buffer, as bytes.
        kept: What the buffer must still hold.
        inside: Which bytes of the buffer belong to elements.
    """

    name: str
    view: F32
    memory: U8
    kept: U8
    inside: np.typing.NDArray[np.bool_]

    def damage(self) -> str:
        """What was written, in words; empty if nothing."""
        other = self.memory != self.kept
        if not other.any():
            return ""
        within, outside = int((other & self.inside).sum()), int((other & ~self.inside).sum())
        said = [f"{within} bytes of input {self.name}"] if within else []
        said += [f"{outside} bytes around input {self.name}"] if outside else []
        return " and ".join(said)


def fence(name: str, array: F32) -> Fenced:
    """A copy of a tensor between guard zones, with its strides and alignment.

    Args:
        name: Name of the tensor, for reports.
        array: Any shape and strides.
    """
    low, high = byte_bounds(array) if array.size else (0, 0)
    zone = ZONE if high - low <= LARGEST else 0
    if not zone or not array.size:
        return _plain(name, array)
    memory = np.full(high - low + 2 * zone + ALIGNMENT, NAN_PATTERN)
    start = zone + (low - memory.ctypes.data - zone) % ALIGNMENT
    offset = start + (array.ctypes.data - low)  # negative strides begin at the far end
    view: F32 = np.ndarray(array.shape, np.float32, memory, offset, array.strides)
    view[...] = array
    inside = _inside(view, memory.size, offset)
    return Fenced(name, view, memory, memory.copy(), inside)


def _plain(name: str, array: F32) -> Fenced:
    view = np.array(array, order="C")
    memory: U8 = view.reshape(-1).view(np.uint8)
    return Fenced(name, view, memory, memory.copy(), np.ones(memory.size, dtype=bool))


def _inside(view: F32, size: int, offset: int) -> np.typing.NDArray[np.bool_]:
    """Marks the bytes of every element through a view of the same strides."""
    inside = np.zeros(size, dtype=bool)
    shape, strides = (*view.shape, view.itemsize), (*view.strides, 1)
    np.ndarray(shape, np.bool_, inside, offset, strides)[...] = True
    return inside
