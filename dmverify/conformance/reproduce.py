"""What has to be asked before a case, so that a new kernel fails on it again.

A fault may be state that other calls left: a workspace of another shape, a cached scale. The case
alone then conforms, and a line that repeats it alone would deny the fault. So a failed case is
asked again in a new process: alone, then after the last 1, 2, 4, ... cases of the run; what is not
needed of these is left out again. A process of its own means that nothing is left from the run.

Not covered: cases whose tensors only this process has; checks of what only this process sees
(``internals``, the memory of relations with poison); and faults that come and go.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from dmverify.conformance.checks import CHECKS
from dmverify.conformance.environment import of_python
from dmverify.conformance.events import ignore
from dmverify.conformance.families import generate
from dmverify.conformance.report.report import Report, Subject
from dmverify.conformance.resolve import resolve_kernel
from dmverify.conformance.runner import How, judge_cases
from dmverify.conformance.selection import Asked
from dmverify.conformance.tensor_files import Source, bring_file, can_be_brought, sources_of
from dmverify.conformance.verdict import Finding, Verdict

LONGEST = 16  # cases before the one that failed
CASES = 3  # that are repeated; others of the same run mostly fail for the same reason
SECONDS = 600.0  # for one of these processes
PROGRAM = (sys.executable, "-P", "-m", "dmverify.conformance.reproduce")


@dataclass(frozen=True)
class Reproduced:
    """How a failure is repeated.

    Attributes:
        before: Cases to ask first; empty if the case fails alone.
        seen: Whether it failed again. If not, nothing is known of how to repeat it.
    """

    before: tuple[Asked, ...] = ()
    seen: bool = True


def reproduce(earlier: Sequence[Asked], fails: Callable[[Sequence[Asked]], bool]) -> Reproduced:
    """Looks for the shortest history under which a case fails.

    Args:
        earlier: What the run asked before it, in order.
        fails: Whether the case fails in a new process after these.
    """
    if not earlier or fails(()):
        return Reproduced()
    length = 1
    while True:
        before = tuple(earlier[-length:])
        if fails(before):
            return Reproduced(_needed(before, fails))
        if length >= min(LONGEST, len(earlier)):
            return Reproduced(seen=False)
        length = min(2 * length, LONGEST, len(earlier))


def _needed(
    before: tuple[Asked, ...], fails: Callable[[Sequence[Asked]], bool]
) -> tuple[Asked, ...]:
    """Halves a history while one half does."""
    while len(before) > 1:
        middle = len(before) // 2
        halves = (before[:middle], before[middle:])
        half = next((part for part in halves if fails(part)), None)
        if half is None:
            return before
        before = half
    return before


def with_histories(
    subject: Subject,
    asked: Sequence[Asked],
    fails: Callable[[Finding], bool],
    *,
    timeout: float | None = None,
) -> Subject:
    """The subject, with what has to be asked before the cases that its repro lines name.

    Args:
        subject: A kernel that has a name, with what was found.
        asked: What the run asked, in order.
        fails: Whether a finding fails the run.
        timeout: As for ``resolve_kernel``.
    """
    before, notes = {}, []
    for finding in _to_repeat(subject, fails)[:CASES]:
        place = next(i for i, (case_id, _) in enumerate(asked) if case_id == finding.case)
        again = partial(_again, subject.kernel, finding.check, asked[place], timeout=timeout)
        found = reproduce(asked[:place], again)
        if found.before:
            before[finding.case] = tuple(case_id for case_id, _ in found.before)
        elif not found.seen:
            notes.append(
                f"{finding.check} fails on {finding.case} in this run; in a new process it does "
                f"not, neither alone nor after the {min(LONGEST, place)} cases before it"
            )
    return replace(subject, before=before, notes=tuple(notes))


def _to_repeat(subject: Subject, fails: Callable[[Finding], bool]) -> list[Finding]:
    """The findings that repro lines are about, one a case, of checks that can be repeated."""
    found: dict[str, Finding] = {}
    for summary in Report((subject,), "", 0).checks:
        worst = summary.worst
        inside = summary.id not in CHECKS or CHECKS[summary.id].needs == "internals"
        elsewhere = can_be_brought(worst.case) and not (summary.follows or inside)
        if worst.verdict is Verdict.FAILS and fails(worst) and elsewhere:
            found.setdefault(worst.case, worst)
    return list(found.values())


def _again(
    kernel: str, check: str, last: Asked, before: Sequence[Asked], *, timeout: float | None
) -> bool:
    return fails_anew(kernel, check, (*before, last), timeout=timeout)


def fails_anew(
    kernel: str, check: str, asked: Sequence[Asked], *, timeout: float | None = None
) -> bool:
    """Whether a check rejects the last of some cases in a new process.

    Args:
        kernel: Name of the kernel.
        check: Id of the check.
        asked: The cases, in order.
        timeout: As for ``resolve_kernel``.
    """
    files = [source.to_json() for source in sources_of([case_id for case_id, _ in asked])]
    question: dict[str, Any] = {"kernel": kernel, "check": check, "asked": list(asked)}
    question |= {"files": files, "timeout": timeout}
    try:
        done = subprocess.run(
            PROGRAM,
            input=json.dumps(question),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | of_python(),
            timeout=SECONDS,
            text=True,
            check=True,
        )
        return json.loads(done.stdout) is True
    except (OSError, ValueError, subprocess.SubprocessError):  # it broke: no answer to this
        return False


def answer(question: dict[str, Any]) -> bool:
    """What such a process answers."""
    for source in question["files"]:
        bring_file(Source.from_json(source))
    kernel = resolve_kernel(question["kernel"], timeout=question["timeout"])
    cases = [generate(case_id, contract=contract) for case_id, contract in question["asked"]]
    how = How(tuple(CHECKS.values()), ignore)
    return any(
        finding.check == question["check"]
        and finding.case == cases[-1].id
        and finding.verdict is Verdict.FAILS
        for finding in judge_cases(kernel, cases, how)
    )


if __name__ == "__main__":
    kept = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a kernel prints is no answer
    with kept:
        json.dump(answer(json.load(sys.stdin)), kept)
