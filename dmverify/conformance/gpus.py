"""Whether this machine shows a GPU to a process, without any library."""

from __future__ import annotations

import os
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"
HIDES = ("", "-1")  # values of it that hide every GPU
DEVICES = Path("/dev")
FILES = ("nvidia[0-9]*", "dxg")  # of Linux, and of Linux within Windows


def shows_gpu() -> bool:
    """Whether a kernel here may run on a GPU; one that it does not use counts as well."""
    hidden = os.environ.get(VISIBLE) in HIDES
    return not hidden and any(file for name in FILES for file in DEVICES.glob(name))
