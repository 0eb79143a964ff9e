"""Memory that is there and takes no room until it is written.

Tensors whose rows lie gigabytes apart need addresses, not memory: an anonymous mapping gives pages
on the first write and reads as 0 before. ``numpy.zeros`` mostly does the same, but a machine with
less memory than the array is long may refuse it.
"""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt


def untouched(size: int) -> npt.NDArray[np.uint8]:
    """Writable bytes that read as 0.

    Args:
        size: How many, at least 1.

    Raises:
        OSError: If the system has no such range of addresses.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    return np.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=np.uint8)
