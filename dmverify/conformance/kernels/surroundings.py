"""What can be changed around a kernel that runs in this process, and seen of what it calls.

| condition | while it is open |
|---|---|
| poison | memory fresh from numpy's and torch's allocators is NaN |
| stream | torch queues its work on another stream of the GPU |
| other-algorithms | torch behaves as under poison, and memory stays as it is |
| watch | calls of torch's attention, and runs of this project's specification, are noted |

They are opened where the kernel computes: here, or in its own process by ``process.serve``.
Not covered: kernels that allocate by other means, and programs of other languages.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dmverify.spec.attention.operands import Prepared

ATTENTION = ("scaled_dot_product", "flash_attention", "efficient_attention", "cudnn_attention")

_FILL: Any = torch.utils.deterministic  # a module whose class has the property


@contextmanager
def poisoned() -> Iterator[None]:
    """Fills uninitialised memory with NaN: what a kernel forgets to write then shows."""
    with (
        patch.object(np, "empty", _filled(np.empty)),
        patch.object(np, "empty_like", _filled(np.empty_like)),
        _switched(fill=True),
    ):
        yield


@contextmanager
def other_algorithms() -> Iterator[None]:
    """What else ``poisoned`` changes: torch takes the algorithms that it calls deterministic."""
    with _switched(fill=False):
        yield


@contextmanager
def _switched(*, fill: bool) -> Iterator[None]:
    """Torch fills memory in its deterministic mode alone.

    ``use_deterministic_algorithms`` would do the same and import the compiler first, which takes
    longer than many cases.
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


def _filled(allocate: Callable[..., Any]) -> Callable[..., Any]:
    def made(*args: Any, **named: Any) -> Any:
        array = allocate(*args, **named)
        if array.dtype.kind == "f":
            array.fill(np.nan)
        return array

    return made


@contextmanager
def other_stream() -> Iterator[None]:
    """Makes another stream of the GPU the current one, and waits for it at the end."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    stream.synchronize()


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, seen: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen = seen

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        if any(word in name for word in ATTENTION):
            self._seen.append(f"torch's {name}")
        return func(*args, **(kwargs or {}))


@contextmanager
def _watching(seen: list[str]) -> Iterator[None]:
    """Notes what the kernel lets others compute.

    Whatever the specification computes, bits or enclosures, it begins by preparing operands.
    """
    original = Prepared.__init__

    def noted(self: Prepared, *args: Any, **named: Any) -> None:
        seen.append("this project's specification")
        original(self, *args, **named)

    with patch.object(Prepared, "__init__", noted), _Watch(seen):
        yield


CONDITIONS: dict[str, Callable[[list[str]], AbstractContextManager[object]]] = {
    "poison": lambda _: poisoned(),
    "stream": lambda _: other_stream(),
    "other-algorithms": lambda _: other_algorithms(),
    "watch": _watching,
}
"""By name; each is given the list that notes go to."""


def lacks(condition: str) -> str:
    """Why a condition cannot be had here, in words; empty if it can."""
    missing = condition == "stream" and not torch.cuda.is_available()
    return "there is no GPU here" if missing else ""


@contextmanager
def surrounded(conditions: Iterable[str]) -> Iterator[list[str]]:
    """Opens conditions by name; yields the list of what was noted."""
    seen: list[str] = []
    with ExitStack() as stack:
        for name in conditions:
            stack.enter_context(CONDITIONS[name](seen))
        yield seen
