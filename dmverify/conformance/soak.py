"""The level without end: smoke's families with one seed after the other, until it is stopped.

A fault that one draw in a thousand shows needs a thousand draws. Ctrl-C, or the end of the minutes
that were given, ends the run after what is judged already; that is the result. Captures and checks
that are about the kernel and not the case run with the first seed only.

What is kept of a finding is small where it conforms: its worst element stays only if no margin of
its check before was as large. Memory still grows without end: 220 bytes a finding (tracemalloc) and
some 30 findings a case make 1.5 MB of a round of all families.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count

from dmverify.conformance.adapter import Kernel
from dmverify.conformance.adapter import describe as describe_kernel
from dmverify.conformance.events import CaseDone, CheckDone, Event, Listener, RunStarted
from dmverify.conformance.families import generate, list_cases, list_families
from dmverify.conformance.interrupt import Stop, until_ctrl_c
from dmverify.conformance.pipeline import announced
from dmverify.conformance.runner import How, judge_cases
from dmverify.conformance.verdict import Finding, Verdict
from dmverify.errors import InputError

SECONDS = 60.0  # of a minute


class _Stopped(Exception):
    """The minutes are over."""


def soak(
    kernel: Kernel,
    contract: str,
    *,
    seed: int,
    how: How,
    minutes: float | None = None,
) -> tuple[Finding, ...]:
    """Judges a kernel until Ctrl-C, the end of the minutes, or a finding that stops the run.

    Args:
        kernel: The kernel under test.
        contract: Name of the contract it is judged by.
        seed: The first seed; the others follow it.
        how: How cases are judged; it hears of one run whose number of cases is not known.
        minutes: After how many to stop; None waits for Ctrl-C.

    Returns:
        All findings until then, those of a case that was not finished among them.

    Raises:
        InputError: If ``minutes`` is not above 0.
    """
    if minutes is not None and not 0 < minutes < math.inf:
        raise InputError(
            f"minutes={minutes}",
            rule="a run has minutes above 0",
            fix="pass --minutes 1 or more, or leave it out",
        )
    end = math.inf if minutes is None else time.monotonic() + SECONDS * minutes
    watch = _Watch(how.emit, end)
    ids = (text for s in count(seed) for text in _ids(s, first=s == seed))
    cases = (generate(case_id, contract=contract) for case_id in ids)
    started = RunStarted(describe_kernel(kernel).kernel, contract, None)
    with announced(started, how.emit), suppress(_Stopped), until_ctrl_c(Stop()):
        for _ in judge_cases(kernel, cases, replace(how, emit=watch)):
            pass  # the watch keeps what it hears, also of a case that is not finished
    return tuple(watch.kept)


def describe(findings: Sequence[Finding]) -> str:
    """How far the run came, in one sentence."""
    cases = len({finding.case for finding in findings})
    last = f"; the last was {findings[-1].case}" if findings else ""
    return f"soak: stopped after {cases} cases{last}"


def _ids(seed: int, *, first: bool) -> tuple[str, ...]:
    """Smoke's cases for the first seed, then its drawn ones."""
    if first:
        return list_cases(seed=seed)
    return tuple(text for row in list_families() for text in list_cases(row.name, seed=seed))


@dataclass
class _Watch:
    """Keeps findings and looks at the clock.

    Attributes:
        emit: Who else listens.
        end: When time is up, on the monotonic clock.
        kept: The findings.
        checks: Ids of the checks that have judged something, with their largest margin.
    """

    emit: Listener
    end: float
    kept: list[Finding] = field(default_factory=list)
    checks: dict[str, float] = field(default_factory=dict)

    def __call__(self, event: Event) -> None:
        """Takes one event."""
        if isinstance(event, CheckDone):
            self.kept.append(self._small(event.finding))
        self.emit(event)
        if isinstance(event, CaseDone) and time.monotonic() >= self.end:
            raise _Stopped

    def _small(self, finding: Finding) -> Finding:
        before = self.checks.get(finding.check, -math.inf)
        margin = -math.inf if math.isnan(finding.margin) else finding.margin
        self.checks[finding.check] = max(margin, before)
        if finding.verdict is Verdict.CONFORMS and margin <= before:
            return replace(finding, worst=None)
        return finding
