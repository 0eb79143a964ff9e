"""Case after case, written once: who listens hears of every run in the same words and order.

A run is a list of cases and what comes of each. Kernels and their answers on disk, recorded hashes,
instructions and programs that only ask are all put through ``each``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from dmverify.conformance.apart import judging
from dmverify.conformance.events import (
    CaseDone,
    CaseStarted,
    CheckDone,
    Listener,
    RunDone,
    RunStarted,
)
from dmverify.conformance.verdict import Finding

Work: TypeAlias = Iterable[tuple[str, Iterable[Finding]]]
"""The id of each case and its findings, which are made as they are taken."""


@contextmanager
def announced(started: RunStarted, emit: Listener) -> Iterator[None]:
    """Says that a run begins, and that it is over."""
    emit(started)
    yield
    emit(RunDone())


def each(
    work: Work, emit: Listener, *, stops: Callable[[Finding], bool] = lambda finding: False
) -> Iterator[Finding]:
    """The findings of one case after the other; keeps none of them.

    Args:
        work: What comes of each case.
        emit: Called with each event.
        stops: Whether a finding ends the run after its case.
    """
    for number, (case, findings) in enumerate(work, 1):
        stopped = False
        emit(CaseStarted(case, number))
        with judging():
            for finding in findings:
                stopped = stops(finding) or stopped
                emit(CheckDone(finding))
                yield finding
        emit(CaseDone(case))
        if stopped:
            return
