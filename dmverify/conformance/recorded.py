"""Answers that were recorded beforehand and are judged by name, without what gave them.

A package offers a ``Recording`` by an entry point in the group ``GROUP``. ``verify NAME`` judges
it; ``verify`` without a kernel judges every one offered. This project's own laboratory offers what
an H200 answered in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Protocol

from dmverify.conformance.events import Listener
from dmverify.conformance.pool import Pool
from dmverify.conformance.verdict import Finding
from dmverify.errors import KernelError

GROUP = "dmverify.recordings"


class Judge(Protocol):
    """Judges what was recorded."""

    def __call__(
        self, cases: Sequence[str] = (), /, *, level: str, emit: Listener, pool: Pool | None
    ) -> tuple[Finding, ...]:
        """Findings of the cases, or of the level if none is named; ``emit`` hears of each."""


def _no_notes(level: str) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True)
class Recording:
    """What was recorded, and how it is judged.

    Attributes:
        name: What ``verify`` calls it.
        summary: What it is.
        by: What it is judged by, in words.
        judge: Judges it.
        kernel: The built-in kernel that gave it, which is judged in its place where it runs.
        notes: What the reader must know, at a level.
    """

    name: str
    summary: str
    by: str
    judge: Judge
    kernel: str = ""
    notes: Callable[[str], tuple[str, ...]] = _no_notes


def offered_recordings() -> dict[str, Recording]:
    """The recordings that installed packages offer, by name; those of a kernel first.

    Raises:
        KernelError: If one cannot be loaded, or is no ``Recording`` of its name.
    """
    points = {point.name: point.value for point in entry_points(group=GROUP)}
    found = [_load(name, target) for name, target in sorted(points.items())]
    return {one.name: one for one in sorted(found, key=lambda one: not one.kernel)}


def recording_names() -> frozenset[str]:
    """Their names, without loading one."""
    return frozenset(point.name for point in entry_points(group=GROUP))


def _load(name: str, target: str) -> Recording:
    try:
        found = next(point for point in entry_points(group=GROUP, name=name)).load()
    except (ImportError, AttributeError) as error:
        raise _refused(name, target, "can be imported") from error
    if not isinstance(found, Recording) or found.name != name:
        raise _refused(name, target, "is a dmverify.conformance.recorded.Recording of that name")
    return found


def _refused(name: str, target: str, rule: str) -> KernelError:
    return KernelError(
        f"recording {name!r} of {target}",
        rule=f"what a package offers in the group {GROUP} {rule}",
        fix="correct the entry point in the package's metadata, or uninstall the package",
    )
