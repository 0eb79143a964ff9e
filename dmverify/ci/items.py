"""Tests of a suite as pytest's items: one a case, a sub-result each check that fails.

| the report of a case says | the test |
|---|---|
| conforms, or the contract allows any answer | passes |
| does not conform, error, timeout | fails, with what ``dmverify verify`` shows of each check |
| the kernel declines it, or no check can judge it | is skipped, with the reason |

With ``-v`` the other checks are sub-results too. Without, they would be most of what the processes
of pytest-xdist send each other: some 30 a case, a tenth of the time that a small one takes.

Every test has the marker ``dmverify`` and that of its family (``dmverify_lengths``), and as
properties, which JUnit files show, the margin of each check, the error of each output, why a check
did not judge, and where it fails the line that repeats it.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Iterator

import pytest
from rich.console import Console

from dmverify.ci.judge import ONCE, Judge, Row, judge_of, long_rows_first
from dmverify.ci.suite import Suite
from dmverify.ci.summary import ERROR, MARGIN, REPEAT, SERVED, UNJUDGED, Property
from dmverify.conformance.report.failures import causes, failure
from dmverify.conformance.report.report import Report, Summary
from dmverify.conformance.verdict import FAILURES, Verdict
from dmverify.errors import DmverifyError

WIDTH = 100
WORKER = "workerinput"  # what pytest-xdist tells a process of its own


class SuiteCollector(pytest.Collector):
    """A suite in a module, or of the options."""

    suite: Suite

    @classmethod
    def of(cls, parent: pytest.Collector, name: str, suite: Suite) -> SuiteCollector:
        """A collector of that name."""
        of_options = isinstance(parent, pytest.Session)  # which has no id of its own to begin with
        more = {"nodeid": name} if of_options else {}
        collector: SuiteCollector = cls.from_parent(parent, name=name, **more)
        collector.suite = suite
        return collector

    def collect(self) -> Iterator[pytest.Item]:
        """One item a case; an error of the project's is the collector's, in one line.

        Raises:
            UsageError: For wrong names, and a kernel that cannot be loaded.
        """
        try:
            judge = judge_of(self.suite)
            rows = list(judge.rows())
        except DmverifyError as error:
            raise self.CollectError(str(error)) from error
        self._declare(dict.fromkeys(row.family for row in rows))
        if isinstance(self.parent, pytest.Session) and hasattr(self.config, WORKER):
            rows = long_rows_first(rows, getattr(self.config, WORKER)["workercount"])
        for row in rows:
            item = pytest.Function.from_parent(self, name=row.name, callobj=_test(judge, row))
            item.add_marker("dmverify")
            item.add_marker(marker(row.family))
            yield item

    def _declare(self, families: Iterable[str]) -> None:
        """Makes the markers of families known, or --strict-markers would refuse them."""
        known = self.config.getini("markers")
        for family in families:
            line = f"{marker(family)}: cases of dmverify's family {family}"
            if line not in known:
                self.config.addinivalue_line("markers", line)


def marker(family: str) -> str:
    """The marker of a family's tests."""
    return f"dmverify_{family.replace('-', '_')}"


def _test(judge: Judge, row: Row) -> Callable[..., None]:
    def test(subtests: pytest.Subtests, request: pytest.FixtureRequest) -> None:
        report = judge.judge(row)
        every = request.config.get_verbosity(pytest.Config.VERBOSITY_SUBTESTS) > 0
        try:
            if not report.served.asked or report.served.declined:
                pytest.skip(report.findings[0].reason)
            if all(summary.verdict is Verdict.UNSUPPORTED for summary in report.checks):
                pytest.skip(report.checks[0].worst.reason)
            for summary in report.checks if every else filter(_fails, report.checks):
                with subtests.test(msg=summary.id):
                    _conclude(report, summary)
        finally:  # behind the sub-results, each of which would carry all of them to its listeners
            request.node.user_properties += _properties(row, report)

    return test


def _properties(row: Row, report: Report) -> Iterator[Property]:
    """What the JUnit file and the summary show of a test, whatever its outcome."""
    if row.family != ONCE:
        yield SERVED, report.served.served
    for summary in report.checks:
        if not math.isnan(summary.margin):
            yield f"{MARGIN}.{summary.id}", float(f"{summary.margin:.6g}")
        if summary.errors:
            yield f"{ERROR}.{summary.id}", float(f"{summary.errors.largest:.6g}")
        if summary.verdict is Verdict.UNSUPPORTED:
            yield f"{UNJUDGED}.{summary.id}", summary.worst.reason
        if _fails(summary):
            yield f"{REPEAT}.{summary.id}", summary.repro


def _fails(summary: Summary) -> bool:
    return summary.verdict in FAILURES


def _conclude(report: Report, summary: Summary) -> None:
    if _fails(summary):
        pytest.fail(shown(report, summary), pytrace=False)
    if summary.verdict is Verdict.UNSUPPORTED:
        pytest.skip(summary.worst.reason)


def shown(report: Report, summary: Summary) -> str:
    """A failure as ``dmverify verify`` shows it, without colours."""
    text = io.StringIO()
    console = Console(file=text, width=WIDTH, color_system=None)
    failure(summary, console)
    if summary.follows:
        console.print(f"  follows from: {', '.join(summary.follows)}")
    else:
        causes(report.subjects[0], console)
    return text.getvalue().rstrip()
