"""How many cores a process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Those that the system lets this process run on, or all of them where it does not say."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux
    return len(affinity(0)) if affinity else os.cpu_count() or 1
