"""Processes that a process started, and the CPU time of all of them, as Linux tells both."""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")  # a second
PARENT, TIMES = 1, slice(11, 15)  # behind the name in /proc/N/stat: own times and those of the dead


def below(process: int) -> list[int]:
    """Every process that a process started, and that those did.

    Args:
        process: Its id.
    """
    children: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        if fields := _fields(file):
            children.setdefault(int(fields[PARENT]), []).append(int(file.parent.name))
    found = [process]
    for one in found:  # which grows meanwhile
        found += children.get(one, [])
    return found[1:]


def cpu_seconds(process: int) -> float:
    """CPU seconds of a process, of all that it started, and of those of them that have ended.

    Args:
        process: Its id.
    """
    files = (Path(f"/proc/{one}/stat") for one in (process, *below(process)))
    return sum(sum(map(int, _fields(file)[TIMES])) for file in files) / TICKS


def _fields(stat: Path) -> list[str]:
    """What a file says behind the name, which may hold anything; nothing of one that has ended."""
    try:
        return stat.read_text().rpartition(")")[2].split()
    except OSError:
        return []
