"""Keeps the judge's arithmetic apart from what a kernel of this process does to its own.

| state | a kernel that leaves it changed would otherwise | here |
|---|---|---|
| rounding direction, flushing | be judged by numbers that are rounded or flushed as its own | (1) |
| numpy's errors, warnings as errors | fail where the judge meets a NaN or an underflow | (1) |
| threads of numpy's BLAS | get errors whose last bits depend on the number of cores | (2) |

(1) the kernel's own in its calls, the default of IEEE 754 and silence around them.
(2) one, for the kernel too, as in a process of its own (``environment``).

Flushing is what libraries built with ``-ffast-math`` and ``torch.set_flush_denormal`` switch on; a
kernel that did so when it was loaded flushes in its calls as it would for its users.

Not covered: threads, which have a floating-point environment of their own; systems whose C library
has no ``fesetenv`` of the default environment by the address -1 (all but Linux); and whatever else
a kernel alters: a process of its own (``resolve``) is for that.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

ROOM = 512  # bytes; no fenv_t is as large
DEFAULT = ctypes.c_void_p(-1)  # FE_DFL_ENV of glibc and musl

_MATHS = ctypes.CDLL(None)  # what Python is linked with
_BLAS = ThreadpoolController().select(user_api="blas")  # numpy's, which is loaded by now


class _Environment:
    """The floating-point environment that the kernel left, while judging is open.

    Attributes:
        left: The processor's.
        errors: What numpy does about divisions by zero, overflow and the like.
    """

    left: ctypes.Array[ctypes.c_char] | None = None
    errors: dict[str, Any] | None = None


@contextmanager
def judging() -> Iterator[None]:
    """Open around a run: the default floating-point environment, but in ``kernels_own``."""
    before = _Environment.left, _Environment.errors
    _Environment.left, _Environment.errors = _get(), {**np.geterr()}
    _set(DEFAULT)
    try:
        with np.errstate(all="ignore"), _BLAS.limit(limits=1):
            yield
    finally:
        _set(_Environment.left)
        _Environment.left, _Environment.errors = before


@contextmanager
def kernels_own() -> Iterator[None]:
    """Open around a call of the kernel: the environment that it left after its last one."""
    inside = _get()
    if _Environment.left is not None:
        _set(_Environment.left)
    try:
        with np.errstate(**_Environment.errors or {}):
            yield
    finally:
        if _Environment.left is not None:
            _Environment.left = _get()
        _set(inside)


def _get() -> ctypes.Array[ctypes.c_char]:
    found = ctypes.create_string_buffer(ROOM)
    _MATHS.fegetenv(found)
    return found


def _set(environment: ctypes.Array[ctypes.c_char] | ctypes.c_void_p) -> None:
    if isinstance(environment, ctypes.Array) or sys.platform == "linux":
        _MATHS.fesetenv(environment)
