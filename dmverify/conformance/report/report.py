"""``Report``: the findings of a run, summed up check by check."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from dmverify.conformance.causes import Likely, likely_causes
from dmverify.conformance.report.as_json import as_json
from dmverify.conformance.report.as_junit import as_junit
from dmverify.conformance.report.errors import Errors, errors_of
from dmverify.conformance.report.follow import followers, sources
from dmverify.conformance.report.notebook import report_html
from dmverify.conformance.report.repeat import Repeat, by_verify
from dmverify.conformance.report.served import Served, served
from dmverify.conformance.verdict import FAILURES, SEVERITY, Finding, Verdict
from dmverify.errors import UnknownNameError
from dmverify.files import write_atomically
from dmverify.spec.recording import Provenance

EXIT_CODES = {
    Verdict.CONFORMS: 0,
    Verdict.FAILS: 1,
    Verdict.ERROR: 3,
    Verdict.TIMEOUT: 4,
    Verdict.UNSUPPORTED: 5,
    Verdict.INDETERMINATE: 6,
}

INTERRUPTED = 130  # as a shell says of a program that Ctrl-C ended


@dataclass(frozen=True)
class Summary:
    """One check over all cases.

    Attributes:
        id: The check's id.
        kernel: The kernel under test.
        verdict: The most severe one, in the order of ``verdict.SEVERITY``.
        margin: The largest margin, NaN if nothing was measured.
        cases: Number of cases that were judged.
        judged: Number of values that were compared.
        open: Of these, how many the contract leaves undetermined.
        failed: Number of cases on which it fails.
        families: The families of these cases.
        follows: The checks from which all of its failures follow; empty if one stands alone.
        indeterminate: Of the judged cases, those in which the contract allows any answer.
        unsupported: Number of cases the kernel does not serve.
        expected: Number of cases whose verdict was expected, whatever it is.
        worst: The finding to look at first.
        repro: A command that repeats it.
        errors: How wrong the output is that the check is about, if it is about one.
    """

    id: str
    kernel: str
    verdict: Verdict
    margin: float
    cases: int
    judged: int
    open: int
    indeterminate: int
    unsupported: int
    expected: int
    failed: int
    families: tuple[str, ...]
    follows: tuple[str, ...]
    worst: Finding
    repro: str
    errors: Errors | None = None


@dataclass(frozen=True)
class Subject:
    """What was judged in one part of a run.

    Attributes:
        kernel: Its name.
        contract: The contract it was judged by, or the instruction set.
        judged_by: What its answers were compared with, in words.
        findings: All that the checks found.
        producer: What the kernel says it is.
        repeat: Makes the line that repeats a finding; None is ``dmverify verify`` of the name.
        before: By case, what has to be asked first to see its failure again; mostly nothing.
        notes: What the reader must know of this part.
        contracts: The names of all contracts that its cases were asked under.
    """

    kernel: str
    contract: str
    judged_by: str
    findings: tuple[Finding, ...]
    producer: Provenance | None = None
    repeat: Repeat | None = field(default=None, compare=False)
    before: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    contracts: tuple[str, ...] = ()

    def repro(self, finding: Finding) -> str:
        """What repeats one finding."""
        repeat = self.repeat or by_verify(self.kernel, self.contract)
        return repeat(finding, self.before.get(finding.case, ()))

    @cached_property
    def served(self) -> Served:
        """How many of its cases it served."""
        return served(self.findings)

    @cached_property
    def causes(self) -> tuple[Likely, ...]:
        """What most likely is wrong, nearest first; nothing if nothing unexpected fails."""
        failed = [f for f in self.findings if f.verdict is Verdict.FAILS and not f.expected]
        cases = {finding.case for finding in failed}
        known = [f for f in self.findings if f.case in cases and not f.expected]
        return likely_causes(known) if failed else ()


@dataclass(frozen=True)
class Report:
    """The result of ``verify``.

    Attributes:
        subjects: What was judged, part by part.
        level: How much was run.
        seed: Seed of the drawn cases.
        notes: What the reader must know, such as what was not judged.
        warnings: What the reader should put right, such as a stale expectation.
        min_served: The fraction of its cases that every subject has to serve; with less, the
            report does not conform.
        max_error: By output, the largest error from float64 attention (``rms``) that a case may
            have; with more, the report does not conform.
        interrupted: Whether Ctrl-C ended the run: the findings are what was judged by then.
    """

    subjects: tuple[Subject, ...]
    level: str
    seed: int
    notes: tuple[str, ...] = field(default=())
    warnings: tuple[str, ...] = field(default=())
    min_served: float = 0.0
    max_error: Mapping[str, float] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def kernel(self) -> str:
        """Names of the kernels under test."""
        return ", ".join(subject.kernel for subject in self.subjects)

    @property
    def contract(self) -> str:
        """Names of the contracts they were judged by."""
        return ", ".join(subject.contract for subject in self.subjects if subject.contract)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that was found."""
        return tuple(finding for subject in self.subjects for finding in subject.findings)

    @cached_property
    def checks(self) -> tuple[Summary, ...]:
        """One summary a check, in the order of the run."""
        return tuple(summary for subject in self.subjects for summary in _summaries(subject))

    @property
    def verdict(self) -> Verdict:
        """The verdict over everything; an expected failure counts as one that conforms."""
        found = [
            Verdict.CONFORMS if _failed_as_expected(finding) else finding.verdict
            for finding in self.findings
        ]
        fails = self.too_few or self.too_wrong
        return _most_severe([*found, Verdict.FAILS] if fails else found)

    @cached_property
    def served(self) -> Served:
        """How many cases were served, over all subjects."""
        parts = [subject.served for subject in self.subjects]
        declined = tuple(row for part in parts for row in part.declined)
        return Served(
            sum(part.asked for part in parts),
            sum(part.served for part in parts),
            declined,
            sum(part.unanswered for part in parts),
        )

    @property
    def too_few(self) -> tuple[Subject, ...]:
        """Subjects that served less of their cases than is required."""
        return tuple(s for s in self.subjects if s.served.fraction < self.min_served)

    @cached_property
    def too_wrong(self) -> tuple[Summary, ...]:
        """Outputs with a case that is farther from attention than ``max_error`` allows."""
        limits = self.max_error
        return tuple(
            c for c in self.checks if c.errors and c.errors.largest > limits.get(c.id, math.inf)
        )

    @property
    def ok(self) -> bool:
        """Whether something was judged and all of it conforms."""
        return self.verdict is Verdict.CONFORMS and not self.interrupted

    @property
    def exit_code(self) -> int:
        """The exit code (``EXIT_CODES``): every verdict has its own, and so has Ctrl-C."""
        return INTERRUPTED if self.interrupted else EXIT_CODES[self.verdict]

    @property
    def margin(self) -> dict[str, float]:
        """The largest margin of each check that measured one."""
        return {c.id: c.margin for c in self.checks if not math.isnan(c.margin)}

    def worst(self, check: str) -> Finding:
        """The finding of a check to look at first, with its worst element.

        Raises:
            UnknownNameError: If the check has not run.
        """
        found = {summary.id: summary.worst for summary in self.checks}
        if check not in found:
            raise UnknownNameError(
                f"check {check!r}",
                rule=f"this run has the checks {', '.join(found) or 'none'}",
                fix="name one of them",
            )
        return found[check]

    def to_json(self) -> dict[str, object]:
        """Ready for ``json.dumps``: ok, kernel, contract, level, seed, checks."""
        return as_json(self)

    def to_junit(self) -> str:
        """JUnit XML: a suite a check, a test case a case."""
        return as_junit(self)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return report_html(self)

    def write(self, directory: str | os.PathLike[str]) -> Path:
        """Writes report.json and junit.xml into a directory, each whole or not at all."""
        target = Path(directory)
        target.mkdir(parents=True, exist_ok=True)
        write_atomically(target / "report.json", json.dumps(self.to_json(), indent=1) + "\n")
        write_atomically(target / "junit.xml", self.to_junit())
        return target


def _summaries(subject: Subject) -> Iterable[Summary]:
    groups: dict[str, list[Finding]] = {}
    for finding in subject.findings:
        groups.setdefault(finding.check, []).append(finding)
    following = followers(subject.findings)
    return [_summary(subject, check, found, following) for check, found in groups.items()]


def _summary(
    subject: Subject, check: str, found: list[Finding], following: frozenset[tuple[str, str]]
) -> Summary:
    unforeseen = [finding for finding in found if not _failed_as_expected(finding)]
    verdict = _most_severe(finding.verdict for finding in unforeseen)
    if verdict not in FAILURES:
        verdict = _most_severe(finding.verdict for finding in found)
    key: Callable[[Finding], tuple[bool, bool, bool, float]] = lambda f: (  # noqa: E731
        f.verdict is verdict,
        not f.expected,
        (f.check, f.case) not in following,
        -1.0 if math.isnan(f.margin) else f.margin,
    )
    worst = max(found, key=key)
    margins = [f.margin for f in found if not math.isnan(f.margin)]
    unsupported = sum(f.verdict is Verdict.UNSUPPORTED for f in found)
    indeterminate = sum(f.verdict is Verdict.INDETERMINATE for f in found)
    failed = [f for f in found if f.verdict is Verdict.FAILS]
    return Summary(
        id=check,
        kernel=subject.kernel,
        verdict=verdict,
        margin=max(margins, default=math.nan),
        cases=len(found) - unsupported,
        judged=sum(f.judged for f in found),
        open=sum(f.open for f in found),
        indeterminate=indeterminate,
        unsupported=unsupported,
        expected=sum(bool(f.expected) for f in found),
        failed=len(failed),
        families=tuple(dict.fromkeys(f.case.partition("/")[0] for f in failed)),
        follows=sources(found, following) if verdict is Verdict.FAILS else (),
        worst=worst,
        repro=subject.repro(worst),
        errors=errors_of(found),
    )


def _failed_as_expected(finding: Finding) -> bool:
    return bool(finding.expected) and finding.verdict in FAILURES


def _most_severe(verdicts: Iterable[Verdict]) -> Verdict:
    found = set(verdicts)
    return next((verdict for verdict in SEVERITY if verdict in found), Verdict.UNSUPPORTED)
