"""A pytest plugin that notes when the first test began and when the last one was done.

In between lies what the tests take; before it lie imports and collection, in each process of
pytest-xdist too. It writes both moments to the file that the environment names.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

FILE = "DMVERIFY_CLOCK"


class Clock:
    """The two moments, in seconds of the system's clock."""

    def __init__(self) -> None:
        self.first = self.last = 0.0

    def pytest_runtest_logstart(self) -> None:
        """A test begins, wherever it runs."""
        self.first = self.first or time.time()

    def pytest_runtest_logreport(self) -> None:
        """A test has something to report."""
        self.last = time.time()

    def pytest_sessionfinish(self) -> None:
        """Writes the moments, of the process that hears of every test."""
        if "PYTEST_XDIST_WORKER" not in os.environ:
            Path(os.environ[FILE]).write_text(json.dumps([self.first, self.last]))


def pytest_configure(config: pytest.Config) -> None:
    """Listens."""
    config.pluginmanager.register(Clock(), "dmverify-clock")
