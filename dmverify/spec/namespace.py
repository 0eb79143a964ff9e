"""Array code that runs on numpy arrays and on torch tensors without importing torch.

The namespace is taken from the array that the caller passed in. The few operations that the two
libraries spell differently are functions here; everything else is written ``xp.where(...)``.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np

from dmverify.errors import InputError

Array: TypeAlias = Any
"""A ``numpy.ndarray`` or a ``torch.Tensor``: the two libraries share no static type."""


def namespace_of(x: object) -> Any:
    """Return the module whose functions act on ``x``: numpy or torch.

    Args:
        x: An array, a numpy scalar or a torch tensor.

    Raises:
        InputError: ``x`` is neither.
    """
    if isinstance(x, (np.ndarray, np.generic)):
        return np
    torch = sys.modules.get("torch")  # a tensor cannot exist before its library is imported
    if torch is not None and isinstance(x, torch.Tensor):
        return torch
    raise InputError(
        type(x).__name__,
        rule="array code takes a numpy array or a torch tensor",
        fix="wrap the value: np.asarray(value, dtype=np.float32)",
    )


def astype(x: Array, dtype: str) -> Array:
    """Return ``x`` converted by value to the dtype named ``dtype`` (such as ``"int32"``)."""
    xp = namespace_of(x)
    return x.astype(getattr(xp, dtype)) if xp is np else x.to(getattr(xp, dtype))


def bitcast(x: Array, dtype: str) -> Array:
    """Return the bits of ``x`` read as the equally wide dtype named ``dtype``, without a copy."""
    return x.view(getattr(namespace_of(x), dtype))
