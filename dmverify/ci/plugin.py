"""The pytest plugin; pytest finds it by the entry point ``pytest11``.

    pytest --dmverify-kernel my_package.kernels:attention [--dmverify-level full] [-n 2]

or, in any test module,

    test_conformance = dmverify.conformance_tests("my_package.kernels:attention")

``-k``, ``-m dmverify_lengths``, ``-x``, ``--lf``, ``-n`` and ``--junitxml`` work as on other tests.
A kernel that serves too few of its cases fails the run: fewer than ``--dmverify-min-served``, and
none at all in any case, so that a missing driver is not taken for success.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dmverify.ci import options
from dmverify.ci.suite import Suite
from dmverify.ci.summary import Tally, header
from dmverify.errors import DmverifyError

CHUNK = "maxschedchunk"  # of pytest-xdist: tests that a worker is given at a time
FAILED = pytest.ExitCode.TESTS_FAILED


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Declares the markers, and counts if there is something to count."""
    config.addinivalue_line("markers", "dmverify: conformance of an attention kernel")
    config.pluginmanager.register(_Session(), "dmverify-session")
    if getattr(config.option, CHUNK, 0) is None and options.suite_of(config) is not None:
        setattr(config.option, CHUNK, 1)  # or one worker would begin with all of the long cases


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Collector, name: str, obj: object
) -> pytest.Collector | None:
    """A suite that a test module holds."""
    return _collector(collector, name, obj) if isinstance(obj, Suite) else None


def _collector(parent: pytest.Collector, name: str, suite: Suite) -> pytest.Collector:
    from dmverify.ci.items import SuiteCollector

    return SuiteCollector.of(parent, name, suite)


class _Session:
    """What one run of pytest knows of its suites; nothing is loaded unless there is one."""

    def __init__(self) -> None:
        self.tally = Tally()

    def pytest_report_header(self, config: pytest.Config) -> list[str]:
        suite = options.suite_of(config)
        if suite is None:
            return []
        from dmverify.ci.judge import judge_of

        try:
            return [header(judge_of(suite).info)]
        except DmverifyError as error:
            raise pytest.UsageError(str(error)) from error

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        suite = options.suite_of(config)
        if suite is not None:
            collector = _collector(session, "dmverify", suite)
            try:
                items += [item for item in collector.collect() if isinstance(item, pytest.Item)]
            except pytest.Collector.CollectError as error:
                raise pytest.UsageError(str(error)) from error

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":  # once a test; sub-results have the properties too
            self.tally.add(report.nodeid, report.user_properties)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        least = session.config.getoption(f"{options.PREFIX}min-served")
        tally = self.tally
        if tally.asked and (not tally.served or tally.served < least * tally.asked):
            session.exitstatus = max(int(session.exitstatus), int(FAILED))
        return (yield)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.tally.asked:
            terminalreporter.section("dmverify")
            for line in self.tally.lines():
                terminalreporter.write_line(line)
