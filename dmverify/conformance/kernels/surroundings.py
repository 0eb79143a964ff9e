"""What can be changed around a kernel that runs in this process, and seen of what it calls.

| condition | while it is open |
|---|---|
| poison | memory fresh from numpy's and torch's allocators is NaN |
| stream | torch queues its work on another stream of the GPU |
| other-algorithms | torch behaves as under poison, and memory stays as it is |
| watch | calls of torch's attention, and runs of this project's specification, are noted |

They are opened where the kernel computes: here, or in its own process by ``process.serve``. What
concerns torch is in ``surroundings_torch``, and left out where torch is not installed: no kernel
calls it there.
Not covered: kernels that allocate by other means, and programs of other languages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from importlib import import_module
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np

from dmverify.spec.attention.operands import Prepared


def _torch() -> ModuleType | None:
    """What can be done to torch; None without it."""
    try:
        return import_module("dmverify.conformance.kernels.surroundings_torch")
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        return None


def _of_torch(condition: str, *args: object) -> AbstractContextManager[object]:
    """A condition of torch, or nothing where there is no torch."""
    part = _torch()
    if part is None:
        return nullcontext()
    opened: AbstractContextManager[object] = getattr(part, condition)(*args)
    return opened


@contextmanager
def poisoned() -> Iterator[None]:
    """Fills uninitialised memory with NaN: what a kernel forgets to write then shows."""
    with (
        patch.object(np, "empty", _filled(np.empty)),
        patch.object(np, "empty_like", _filled(np.empty_like)),
        _of_torch("deterministic", True),
    ):
        yield


def _filled(allocate: Callable[..., Any]) -> Callable[..., Any]:
    def made(*args: Any, **named: Any) -> Any:
        array = allocate(*args, **named)
        if array.dtype.kind == "f":
            array.fill(np.nan)
        return array

    return made


@contextmanager
def _watching(seen: list[str]) -> Iterator[None]:
    """Notes what the kernel lets others compute.

    Whatever the specification computes, bits or enclosures, it begins by preparing operands.
    """
    original = Prepared.__init__

    def noted(self: Prepared, *args: Any, **named: Any) -> None:
        seen.append("this project's specification")
        original(self, *args, **named)

    with patch.object(Prepared, "__init__", noted), _of_torch("watching", seen):
        yield


CONDITIONS: dict[str, Callable[[list[str]], AbstractContextManager[object]]] = {
    "poison": lambda _: poisoned(),
    "stream": lambda _: _of_torch("other_stream"),
    "other-algorithms": lambda _: _of_torch("deterministic", False),
    "watch": _watching,
}
"""By name; each is given the list that notes go to."""


def lacks(condition: str) -> str:
    """Why a condition cannot be had here, in words; empty if it can."""
    if condition != "stream":
        return ""
    part = _torch()
    return "" if part is not None and part.has_gpu() else "there is no GPU here"


@contextmanager
def surrounded(conditions: Iterable[str]) -> Iterator[list[str]]:
    """Opens conditions by name; yields the list of what was noted."""
    seen: list[str] = []
    with ExitStack() as stack:
        for name in conditions:
            stack.enter_context(CONDITIONS[name](seen))
        yield seen
