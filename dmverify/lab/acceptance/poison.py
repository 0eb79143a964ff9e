"""Fills every buffer that the launch functions allocate with NaN before a kernel sees it.

0xFF bytes are NaN in BF16, in float32 and in E4M3, so memory that a kernel reads before it was
written, or never writes, turns up in the outputs. Each buffer lies between two guard zones of the
same bytes: a read beyond its ends is a NaN, and a write shows when the zones are checked on the way
out. Not covered: writes further away than a zone is wide, and writes of 0xFF bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from dmverify.errors import KernelError
from dmverify.kernel import launch

POISON = 0xFF
GUARD = 4096  # bytes; a multiple of every alignment that a kernel needs

Keep = Callable[[torch.Tensor], None]


@contextmanager
def poisoned(keep: Keep = lambda buffer: None, *, guard: int = GUARD) -> Iterator[None]:
    """Poisons every buffer made inside, shows each to ``keep``, and checks the guard zones.

    Args:
        keep: Sees each buffer after it was poisoned.
        guard: Width of a zone in bytes; 0 where nobody may notice that a buffer is part of a
            larger one, or where the device cannot be waited for.

    Raises:
        KernelError: On the way out, if a byte of a guard zone has changed.
    """
    real = launch.empty
    zones: list[tuple[tuple[int, ...], torch.Tensor, torch.Tensor]] = []

    def empty(*shape: int, dtype: torch.dtype, like: torch.Tensor) -> torch.Tensor:
        size = math.prod(shape) * dtype.itemsize
        whole = real(guard + size + guard, dtype=torch.uint8, like=like).fill_(POISON)
        if guard:
            zones.append((shape, whole[:guard], whole[guard + size :]))
        buffer = whole[guard : guard + size].view(dtype).view(shape)
        keep(buffer)
        return buffer

    launch.empty = empty
    try:
        yield
    finally:
        launch.empty = real
    for shape, before, after in zones:
        for where, zone in (("before", before), ("after", after)):
            if not bool((zone == POISON).all()):
                raise KernelError(
                    f"bytes {where} the buffer of shape {shape} were written",
                    rule="a kernel writes inside its buffers",
                    fix="look at its addresses",
                )
