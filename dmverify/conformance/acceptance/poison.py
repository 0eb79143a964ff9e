"""Fills every buffer that the launch functions allocate with NaN before a kernel sees it.

0xFF bytes are NaN in BF16, in float32 and in E4M3, so memory that a kernel reads before it was
written, or never writes, turns up in the outputs. ``kept`` collects buffers on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from dmverify.kernel import launch

POISON = 0xFF

Keep = Callable[[torch.Tensor], None]


@contextmanager
def poisoned(keep: Keep = lambda buffer: None) -> Iterator[None]:
    """Poisons every buffer made inside, and shows each to ``keep``."""
    real = launch.empty

    def empty(*shape: int, dtype: torch.dtype, like: torch.Tensor) -> torch.Tensor:
        buffer = real(*shape, dtype=dtype, like=like)
        if buffer.numel():
            buffer.view(torch.uint8).fill_(POISON)
        keep(buffer)
        return buffer

    launch.empty = empty
    try:
        yield
    finally:
        launch.empty = real
