"""Functions whose operations run as few kernels on a GPU, and as they are elsewhere.

Compiled code divides and takes exponentials within 2 units in the last place, so a run on a GPU may
differ in the last bits from one whose operations run one by one; ``plainly`` asks for the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")
_PLAIN: ContextVar[bool] = ContextVar("plain", default=False)


def fused(function: Callable[..., Result], x: Tensor) -> Callable[..., Result]:
    """The function, compiled if x is on a GPU."""
    return _compiled(function) if x.is_cuda and not _PLAIN.get() else function


@contextmanager
def plainly() -> Iterator[None]:
    """Compiles nothing inside."""
    token = _PLAIN.set(True)
    try:
        yield
    finally:
        _PLAIN.reset(token)


@cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.config.recompile_limit = 256  # a recipe and a number of seeds are one each
    made: Callable[..., Any] = torch.compile(function, dynamic=False, fullgraph=True)
    return made
