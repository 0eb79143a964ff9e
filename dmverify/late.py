"""Objects that are imported when they are needed, as tables name them: ``module:name``.

So a table of kernels or verbs imports none of them, and what only an extra brings (torch, CUDA) is
missed only by those who ask for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def object_at(place: str) -> Any:
    """The object ``module:name``.

    Args:
        place: Such as ``dmverify.spec.problem:Problem``.

    Raises:
        ModuleNotFoundError: If a module is missing.

    >>> object_at("dmverify.spec.problem:HEAD_DIM_STEP")
    32
    """
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
