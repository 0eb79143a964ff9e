"""A pytest plugin that notes when the first test began and when the last one was done.

In between lies what the tests take; before it lie imports and collection, in each process of
pytest-xdist too. It writes both moments, and the CPU time of all processes from the first one until
the session ends, to the file that the environment names.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dmverify.lab.spread.processes import cpu_seconds

if TYPE_CHECKING:
    import pytest

FILE = "DMVERIFY_CLOCK"


class Clock:
    """Seconds of the system's clock at both moments, and CPU seconds from the first to the end."""

    def __init__(self) -> None:
        self.first = self.last = self.before = 0.0

    def pytest_runtest_logstart(self) -> None:
        """A test begins, wherever it runs."""
        if not self.first:
            self.before = cpu_seconds(os.getpid())
            self.first = time.time()

    def pytest_runtest_logfinish(self) -> None:
        """A test is done; workers end only after the last one."""
        self.last = time.time()

    def pytest_sessionfinish(self) -> None:
        """Writes them, of the process that hears of every test."""
        if not in_worker():
            spent = cpu_seconds(os.getpid()) - self.before
            Path(os.environ[FILE]).write_text(json.dumps([self.first, self.last, spent]))


def in_worker() -> bool:
    """Whether this process runs tests for another one."""
    return "PYTEST_XDIST_WORKER" in os.environ


def pytest_configure(config: pytest.Config) -> None:
    """Listens."""
    config.pluginmanager.register(Clock(), "dmverify-clock")
