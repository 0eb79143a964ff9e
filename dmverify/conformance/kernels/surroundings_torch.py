"""What ``surroundings`` changes and sees of torch."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

ATTENTION = ("scaled_dot_product", "flash_attention", "efficient_attention", "cudnn_attention")

_FILL: Any = torch.utils.deterministic  # a module whose class has the property


def has_gpu() -> bool:
    """Whether torch can use a GPU here."""
    return torch.cuda.is_available()


@contextmanager
def deterministic(fill: bool) -> Iterator[None]:
    """Torch takes the algorithms that it calls deterministic, and fills fresh memory with NaN.

    Torch fills memory in its deterministic mode alone. ``use_deterministic_algorithms`` would do
    the same and import the compiler first, which takes longer than many cases.

    Args:
        fill: Whether memory is filled.
    """
    before = torch.get_deterministic_debug_mode(), _FILL.fill_uninitialized_memory
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.set_deterministic_debug_mode("warn")
        _FILL.fill_uninitialized_memory = fill
        try:
            yield
        finally:
            torch.set_deterministic_debug_mode(before[0])
            _FILL.fill_uninitialized_memory = before[1]


@contextmanager
def other_stream() -> Iterator[None]:
    """Makes another stream of the GPU the current one, and waits for it at the end."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    stream.synchronize()


def watching(seen: list[str]) -> TorchDispatchMode:
    """Notes calls of torch's attention while it is open."""
    compiles = "torch._dynamo" in sys.modules
    return _Watch(seen) if compiles else _WatchUncompiled(seen)


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, seen: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen = seen

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        if any(word in name for word in ATTENTION):
            self._seen.append(f"torch's {name}")
        return func(*args, **(kwargs or {}))


class _WatchUncompiled(_Watch):  # type: ignore[no-untyped-call]
    """The same where no compiler may look into it: torch would import its own, for a second."""


_WatchUncompiled.__torch_dispatch__ = inspect.unwrap(_Watch.__torch_dispatch__)  # type: ignore[method-assign]
