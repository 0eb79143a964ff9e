"""Memory that takes no room: what is not written yet, and what is free again.

Tensors whose rows lie gigabytes apart need addresses, not memory: an anonymous mapping gives pages
on the first write and reads as 0 before. ``numpy.zeros`` mostly does the same, but a machine with
less memory than the array is long may refuse it.

glibc keeps what a program frees, in arrays of up to 32 MB once it has seen one, since asking the
system again costs time. A judge frees arrays of all lengths, case after case, and holes between
them then stay for good. ``give_back_long_arrays`` fixes the length from which on memory is the
system's again as soon as it is free.
"""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import numpy.typing as npt

LONG = 1 << 24  # bytes; blocks of steps are shorter: of 4 MB, a third of their time was new pages
KEPT = 1 << 27  # free bytes at the end of the heap that stay for short arrays
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # names of glibc's malloc.h


def untouched(size: int) -> npt.NDArray[np.uint8]:
    """Writable bytes that read as 0.

    Args:
        size: How many, at least 1.

    Raises:
        OSError: If the system has no such range of addresses.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    return np.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=np.uint8)


def give_back_long_arrays() -> bool:
    """Has the C library return long arrays to the system when they are freed, in this process.

    Returns:
        Whether it does; C libraries without such a setting are left as they are.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, TypeError, OSError):  # musl, Windows
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LONG) and mallopt(M_TRIM_THRESHOLD, KEPT))


def give_back_free_memory() -> bool:
    """Has the C library return what is free between arrays to the system, once.

    Returns:
        Whether any was; False where the library has no such call.
    """
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (AttributeError, TypeError, OSError):
        return False
